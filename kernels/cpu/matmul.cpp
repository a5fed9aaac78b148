// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include <type_traits>

#include "multiply.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "widened.hpp"

namespace shoal::kernels {

template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  const Matrix<const T>&a = in.a, &b = in.b;
  const bool a_transposed = in.transpose_a == Transpose::yes, b_transposed = in.transpose_b == Transpose::yes;
  const std::size_t k = a_transposed ? a.rows : a.columns;
  require((a_transposed ? a.columns : a.rows) == c.rows && (b_transposed ? b.rows : b.columns) == c.columns &&
              (b_transposed ? b.columns : b.rows) == k && k > 0,
          label, ": a product of [", a.rows, ", ", a.columns, "]", a_transposed ? "'" : "", " and [", b.rows, ", ",
          b.columns, "]", b_transposed ? "'" : "", " into [", c.rows, ", ", c.columns, "]");
  if (c.rows == 0 || c.columns == 0) return;

  const trace::Region region(trace::Level::kernels, trace::Kind::kernel, label,
                             (a.rows * a.columns + b.rows * b.columns) * sizeof(T) + c.rows * c.columns * sizeof(R));
  if constexpr (sizeof(T) == 2) {
    if (is_widened(dtype_of<T>)) return multiply_widened(label, in, c, workspace);
  }
  if constexpr (!std::is_same_v<T, f16>) multiply(label, in, c, workspace);
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(const MatmulShape& shape) {
  if (shape.m == 0 || shape.n == 0) return 0;
  MatmulShape s = shape;
  if (s.a_stride == 0) s.a_stride = s.transpose_a == Transpose::yes ? s.m : s.k;
  if (s.b_stride == 0) s.b_stride = s.transpose_b == Transpose::yes ? s.k : s.n;
  if (s.c_stride == 0) s.c_stride = s.n;
  if constexpr (sizeof(T) == 2) {
    if (is_widened(dtype_of<T>)) return multiply_widened_workspace_bytes<R>(s);
  }
  if constexpr (std::is_same_v<T, f16>) {
    return 0;  // not reached: fp16 is always widened
  } else {
    return multiply_workspace_bytes<T, R>(s);
  }
}

#define SHOAL_INSTANCE(T, R)                                                                      \
  template void matmul<T, R>(const char*, const MatmulInputs<T, R>&, Matrix<R>, Span<std::byte>); \
  template std::size_t matmul_workspace_bytes<T, R>(const MatmulShape&);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
