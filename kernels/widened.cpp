// SPDX-License-Identifier: Apache-2.0
#include "widened.hpp"

#include <algorithm>
#include <type_traits>

#include "instructions.hpp"
#include "multiply.hpp"
#include "simd.hpp"
#include "tiles.hpp"
#include "tiling.hpp"

namespace shoal::kernels {

namespace {

/// Floats of a panel of B, and of one of A together with its results (8 MiB each, unless the sum over k is so long that the
/// least number of rows and columns takes more). Each element of A is widened once per panel of B.
constexpr std::size_t panel_elements = std::size_t{1} << 21U;
constexpr std::size_t least = 64;
constexpr std::size_t line = 64;

template <typename From, typename To>
void convert_rows(const char* label, Matrix<const From> from, Matrix<To> to) {
  for_rows(label, from.rows, from.columns, [=](std::size_t row) {
    simd::for_vectors(from.columns, [x = from.data + row * from.stride, y = to.data + row * to.stride](
                                        std::size_t i, auto part) { simd::store(y + i, simd::load(x + i, part), part); });
  });
}

/// How C is cut, and where the floats of one cut lie in the workspace.
template <typename R>
class Panels {
 public:
  Panels(std::size_t m, std::size_t n, std::size_t k, const MatmulOptions& options, bool bias)
      : m_(m),
        n_(n),
        k_(k),
        options_(options),
        bias_(bias),
        columns_(std::min(n, std::max(least, panel_elements / k / least * least))),
        rows_(std::min(m, std::max(least, panel_elements / (k + columns_) / least * least))) {}

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  /// Of the rows as stored of a panel with so many rows of op(A).
  std::size_t a_stride(std::size_t rows) const { return options_.a == Transpose::yes ? spread_stride(rows) : k_; }

  /// Offsets in bytes.
  std::size_t a() const { return 0; }
  std::size_t b() const { return a() + size(options_.a == Transpose::yes ? k_ * a_stride(rows_) : rows_ * k_); }
  std::size_t c() const { return b() + size(k_ * columns_); }
  std::size_t bias() const { return c() + (rounded ? size(rows_ * columns_) : 0); }
  std::size_t library() const { return bias() + (bias_ ? size(columns_) : 0); }

  std::size_t bytes(std::size_t c_stride) const {
    std::size_t most = 0;
    for (const std::size_t rows : {rows_, (m_ - 1) % rows_ + 1}) {
      for (const std::size_t columns : {columns_, (n_ - 1) % columns_ + 1}) {
        most =
            std::max(most, multiply_workspace_bytes<float, float>(
                               rows, columns, k_,
                               {a_stride(rows), options_.b == Transpose::yes ? k_ : columns, rounded ? columns : c_stride},
                               options_, bias_));
      }
    }
    return library() + most;
  }

  static constexpr bool rounded = !std::is_same_v<R, float>;

 private:
  static std::size_t size(std::size_t elements) { return round_up(elements * sizeof(float), line); }

  std::size_t m_, n_, k_;
  MatmulOptions options_;
  bool bias_;
  std::size_t columns_, rows_;
};

/// Rows (or, where it is transposed, columns) `range` of op(X) = [range, k], as stored.
template <typename T>
Matrix<T> cut(Matrix<T> x, Range range, bool by_stored_rows) {
  if (by_stored_rows) return {x.data + range.begin * x.stride, range.size(), x.columns, x.stride};
  return {x.data + range.begin, x.rows, range.size(), x.stride};
}

}  // namespace

bool is_widened(DType type) {
  // Without the processor's own instructions the library takes many times as long as for floats, or refuses.
  return type == DType::f16 || (type == DType::bf16 && !may_use(Instructions::bf16));
}

template <typename T, typename R>
void multiply_widened(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
                      const T* bias, const R* added, Span<std::byte> workspace) {
  const std::size_t k = options.a == Transpose::yes ? a.rows : a.columns;
  const Panels<R> panels(c.rows, c.columns, k, options, bias != nullptr);
  require_workspace(label, c.rows, c.columns, k, panels.bytes(c.stride), workspace);
  if (added == nullptr) added = c.data;
  const auto floats = [&](std::size_t offset) { return reinterpret_cast<float*>(workspace.data() + offset); };
  const auto widened = [&](Matrix<const T> x, std::size_t offset, std::size_t stride) {
    const Matrix<float> wide(floats(offset), x.rows, x.columns, stride);
    convert_rows("widen", x, wide);
    return Matrix<const float>(wide.data, wide.rows, wide.columns, stride);
  };

  for (std::size_t column = 0; column < c.columns; column += panels.columns()) {
    const Range columns{column, std::min(c.columns, column + panels.columns())};
    const Matrix<const T> b_cut = cut(b, columns, options.b == Transpose::yes);
    const Matrix<const float> right = widened(b_cut, panels.b(), b_cut.columns);
    const float* const wide_bias =
        bias == nullptr ? nullptr : widened({bias + column, 1, columns.size()}, panels.bias(), columns.size()).data;
    for (std::size_t row = 0; row < c.rows; row += panels.rows()) {
      const Range rows{row, std::min(c.rows, row + panels.rows())};
      const Matrix<const float> left =
          widened(cut(a, rows, options.a == Transpose::no), panels.a(), panels.a_stride(rows.size()));
      const std::size_t at = row * c.stride + column;
      const Matrix<R> result(c.data + at, rows.size(), columns.size(), c.stride);
      const auto product = [&](Matrix<float> into, const float* plus) {
        multiply<float, float>(label, left, right, into, options, wide_bias, plus, workspace.subspan(panels.library()));
      };
      if constexpr (Panels<R>::rounded) {
        const Matrix<float> wide(floats(panels.c()), result.rows, result.columns);
        if (options.accumulate)
          convert_rows("widen", Matrix<const R>(added + at, result.rows, result.columns, c.stride), wide);
        product(wide, nullptr);
        convert_rows("narrow", Matrix<const float>(wide.data, wide.rows, wide.columns), result);
      } else {
        product(result, added + at);
      }
    }
  }
}

template <typename R>
std::size_t multiply_widened_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, std::size_t c_stride,
                                             const MatmulOptions& options, bool bias) {
  return Panels<R>(m, n, k, options, bias).bytes(c_stride);
}

#define SHOAL_INSTANCE(T, R)                                                                                           \
  template void multiply_widened<T, R>(const char*, Matrix<const T>, Matrix<const T>, Matrix<R>, const MatmulOptions&, \
                                       const T*, const R*, Span<std::byte>);
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
#undef SHOAL_INSTANCE
#define SHOAL_INSTANCE(R)                                                                                      \
  template std::size_t multiply_widened_workspace_bytes<R>(std::size_t, std::size_t, std::size_t, std::size_t, \
                                                           const MatmulOptions&, bool);
SHOAL_INSTANCE(f16)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
