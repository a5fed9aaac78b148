// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/matmul.hpp"

#include "kernels/common/instances.hpp"
#include "kernels/common/product_depth.hpp"
#include "kernels/cpu/product/multiplier.hpp"
#include "kernels/cpu/product/multiply.hpp"
#include "kernels/cpu/product/widened.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels {

namespace {

template <typename T, typename R>
bool is_widened(const MatmulShape& s) {
  return multiplier_of(product_shape<T, R>(s)) == Multiplier::widened;
}

}  // namespace

template <typename T, typename R>
void matmul(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace) {
  const Matrix<const T>&a = in.a, &b = in.b;
  depth_of(label, in, c);
  require_no_activation(label, in);
  if (c.rows == 0 || c.columns == 0) return;

  const trace::Region region(trace::Level::kernels, trace::Kind::kernel, label,
                             (a.rows * a.columns + b.rows * b.columns) * sizeof(T) + c.rows * c.columns * sizeof(R));
  if constexpr (sizeof(T) == 2) {
    if (is_widened<T, R>(shape_of(in, c))) return multiply_widened(label, in, c, workspace);
  }
  multiply(label, in, c, workspace);
}

template <typename T, typename R>
std::size_t matmul_workspace_bytes(const MatmulShape& shape) {
  if (shape.m == 0 || shape.n == 0) return 0;
  MatmulShape s = shape;
  if (s.a_stride == 0) s.a_stride = s.transpose_a == Transpose::yes ? s.m : s.k;
  if (s.b_stride == 0) s.b_stride = s.transpose_b == Transpose::yes ? s.k : s.n;
  if (s.c_stride == 0) s.c_stride = s.n;
  if constexpr (sizeof(T) == 2) {
    if (is_widened<T, R>(s)) return multiply_widened_workspace_bytes<R>(s);
  }
  return multiply_workspace_bytes<T, R>(s);
}

SHOAL_FOR_PRODUCT_TYPES(matmul);
SHOAL_FOR_PRODUCT_TYPES(matmul_workspace_bytes);

}  // namespace shoal::kernels
