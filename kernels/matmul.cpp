// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include <type_traits>

#include "multiply.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "widened.hpp"

namespace shoal::kernels {

namespace {

Span<std::byte> workspace_given;

}  // namespace

template <typename T, typename R>
void matmul(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
            const T* bias, const R* added) {
  const bool a_turned = options.a == Transpose::yes, b_turned = options.b == Transpose::yes;
  const std::size_t k = a_turned ? a.rows : a.columns;
  require((a_turned ? a.columns : a.rows) == c.rows && (b_turned ? b.rows : b.columns) == c.columns &&
              (b_turned ? b.columns : b.rows) == k && k > 0,
          label, ": a product of [", a.rows, ", ", a.columns, "]", a_turned ? "'" : "", " and [", b.rows, ", ", b.columns,
          "]", b_turned ? "'" : "", " into [", c.rows, ", ", c.columns, "]");
  if (c.rows == 0 || c.columns == 0) return;

  const trace::Region region(trace::Level::kernels, trace::Kind::kernel, label,
                             (a.rows * a.columns + b.rows * b.columns) * sizeof(T) + c.rows * c.columns * sizeof(R));
  if constexpr (sizeof(T) == 2) {
    if (is_widened(dtype_of<T>)) return multiply_widened(label, a, b, c, options, bias, added, workspace_given);
  }
  if constexpr (!std::is_same_v<T, f16>) multiply(label, a, b, c, options, bias, added, workspace_given);
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, const MatmulOptions& options, bool bias,
                                   const MatmulStrides& strides) {
  if (m == 0 || n == 0) return 0;
  const std::size_t a = strides.a != 0 ? strides.a : options.a == Transpose::yes ? m : k;
  const std::size_t b = strides.b != 0 ? strides.b : options.b == Transpose::yes ? k : n;
  const std::size_t c = strides.c != 0 ? strides.c : n;
  if constexpr (sizeof(T) == 2) {
    if (is_widened(dtype_of<T>)) return multiply_widened_workspace_bytes<R>(m, n, k, c, options, bias);
  }
  if constexpr (std::is_same_v<T, f16>) {
    return 0;  // never: it is always widened
  } else {
    return multiply_workspace_bytes<T, R>(m, n, k, {a, b, c}, options, bias);
  }
}

void set_matmul_workspace(Span<std::byte> workspace) { workspace_given = workspace; }

#define SHOAL_INSTANCE(T, R)                                                                                           \
  template void matmul<T, R>(const char*, Matrix<const T>, Matrix<const T>, Matrix<R>, const MatmulOptions&, const T*, \
                             const R*);                                                                                \
  template std::size_t matmul_workspace_bytes<T, R>(std::size_t, std::size_t, std::size_t, const MatmulOptions&, bool, \
                                                    const MatmulStrides&);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
