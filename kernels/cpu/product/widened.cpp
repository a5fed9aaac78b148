// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product/widened.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/product/multiply.hpp"
#include "kernels/cpu/product/tiling.hpp"
#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "shoal/base/bump_allocator.hpp"

namespace shoal::kernels {

namespace {

/// Floats of a panel of B, and of a panel of A together with its results: 8 MiB each, or more if k is so large that `least`
/// rows or columns take more. Each element of A is converted once for each panel of B.
constexpr std::size_t panel_elements = std::size_t{1} << 21U;
constexpr std::size_t least = 64;

template <typename From, typename To>
void convert_rows(const char* label, Matrix<const From> from, Matrix<To> to) {
  for_rows(label, from.rows, from.columns, [=](std::size_t row) {
    simd::for_vectors(from.columns, [x = from.data + row * from.stride, y = to.data + row * to.stride](
                                        std::size_t i, auto part) { simd::store(y + i, simd::load(x + i, part), part); });
  });
}

/// How C is cut into parts, and the buffers in which one part is computed.
template <typename R>
class Panels {
 public:
  explicit Panels(const MatmulShape& shape)
      : shape_(shape),
        columns_(std::min(shape.n, std::max(least, panel_elements / shape.k / least * least))),
        rows_(std::min(shape.m, std::max(least, panel_elements / (shape.k + columns_) / least * least))) {}

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  /// Stride of a panel, as stored, with this many rows of op(A).
  std::size_t a_stride(std::size_t rows) const { return a_transposed() ? spread_stride(rows) : shape_.k; }

  struct Buffers {
    float *a, *b, *c, *bias;  ///< c: null if C is float; bias: null without a bias
    std::size_t bytes;
  };
  Buffers buffers(BumpAllocator memory) const {
    Buffers panels{};
    panels.a = memory.take<float>(a_transposed() ? shape_.k * a_stride(rows_) : rows_ * shape_.k);
    panels.b = memory.take<float>(shape_.k * columns_);
    if constexpr (rounded) panels.c = memory.take<float>(rows_ * columns_);
    if (shape_.bias) panels.bias = memory.take<float>(columns_);
    panels.bytes = memory.used();
    return panels;
  }

  /// Bytes of the buffers and, behind them, of the products of the panels.
  std::size_t bytes() const {
    std::size_t most = 0;
    for (const std::size_t rows : {rows_, (shape_.m - 1) % rows_ + 1}) {
      for (const std::size_t columns : {columns_, (shape_.n - 1) % columns_ + 1}) {
        MatmulShape panel = shape_;
        panel.m = rows;
        panel.n = columns;
        panel.a_stride = a_stride(rows);
        panel.b_stride = shape_.transpose_b == Transpose::yes ? shape_.k : columns;
        if constexpr (rounded) panel.c_stride = columns;
        most = std::max(most, multiply_workspace_bytes<float, float>(panel));
      }
    }
    return buffers(BumpAllocator()).bytes + most;
  }

  static constexpr bool rounded = !std::is_same_v<R, float>;

 private:
  bool a_transposed() const { return shape_.transpose_a == Transpose::yes; }

  MatmulShape shape_;
  std::size_t columns_, rows_;
};

/// The part of X, as stored, that holds the rows or columns `range`.
template <typename T>
Matrix<T> stored_rows(Matrix<T> x, Range range) {
  return {x.data + range.begin * x.stride, range.size(), x.columns, x.stride};
}
template <typename T>
Matrix<T> stored_columns(Matrix<T> x, Range range) {
  return {x.data + range.begin, x.rows, range.size(), x.stride};
}

}  // namespace

template <typename T, typename R>
void multiply_widened(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  const MatmulShape shape = shape_of(in, c);
  const Panels<R> panels(shape);
  require_workspace(label, shape, panels.bytes(), workspace);
  const typename Panels<R>::Buffers buffers = panels.buffers(BumpAllocator(workspace));
  const auto widened = [](Matrix<const T> x, float* to, std::size_t stride) {
    convert_rows("widen", x, Matrix<float>(to, x.rows, x.columns, stride));
    return Matrix<const float>(to, x.rows, x.columns, stride);
  };

  for (std::size_t column = 0; column < c.columns; column += panels.columns()) {
    const Range columns{column, std::min(c.columns, column + panels.columns())};
    const Matrix<const T> b_part =
        in.transpose_b == Transpose::yes ? stored_rows(in.b, columns) : stored_columns(in.b, columns);
    const Matrix<const float> b = widened(b_part, buffers.b, b_part.columns);
    if (in.bias != nullptr) widened({in.bias + column, 1, columns.size()}, buffers.bias, columns.size());
    for (std::size_t row = 0; row < c.rows; row += panels.rows()) {
      const Range rows{row, std::min(c.rows, row + panels.rows())};
      const Matrix<const T> a_part = in.transpose_a == Transpose::no ? stored_rows(in.a, rows) : stored_columns(in.a, rows);
      const std::size_t at = row * c.stride + column;
      const Matrix<R> result(c.data + at, rows.size(), columns.size(), c.stride);
      MatmulInputs<float, float> product{.a = widened(a_part, buffers.a, panels.a_stride(rows.size())),
                                         .b = b,
                                         .transpose_a = in.transpose_a,
                                         .transpose_b = in.transpose_b,
                                         .bias = buffers.bias};
      if constexpr (Panels<R>::rounded) {
        const Matrix<float> wide(buffers.c, result.rows, result.columns);
        if (in.added != nullptr) {
          convert_rows("widen", Matrix<const R>(in.added + at, result.rows, result.columns, c.stride), wide);
          product.added = wide.data;
        }
        multiply(label, product, wide, workspace.subspan(buffers.bytes));
        convert_rows("narrow", Matrix<const float>(wide.data, wide.rows, wide.columns), result);
      } else {
        if (in.added != nullptr) product.added = in.added + at;
        multiply(label, product, result, workspace.subspan(buffers.bytes));
      }
    }
  }
}

template <typename R>
std::size_t multiply_widened_workspace_bytes(const MatmulShape& shape) {
  return Panels<R>(shape).bytes();
}

#define SHOAL_INSTANCE(T, R) \
  template void multiply_widened<T, R>(const char*, const MatmulInputs<T, R>&, Matrix<R>, Span<std::byte>);
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
#undef SHOAL_INSTANCE
template std::size_t multiply_widened_workspace_bytes<f16>(const MatmulShape&);
template std::size_t multiply_widened_workspace_bytes<bf16>(const MatmulShape&);
template std::size_t multiply_widened_workspace_bytes<float>(const MatmulShape&);

}  // namespace shoal::kernels
