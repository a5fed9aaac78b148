// SPDX-License-Identifier: Apache-2.0
// Checks of a matrix product.
#pragma once

#include <cstddef>

#include "shoal/base/error.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// Returns k of the product. Fails unless k > 0 and op(A) [m, k], op(B) [k, n] and C [m, n] fit together.
template <typename T, typename R>
std::size_t depth_of(const char* label, const MatmulInputs<T, R>& in, const Matrix<R>& c) {
  const Matrix<const T>&a = in.a, &b = in.b;
  const bool a_transposed = in.transpose_a == Transpose::yes, b_transposed = in.transpose_b == Transpose::yes;
  const std::size_t k = a_transposed ? a.rows : a.columns;
  require((a_transposed ? a.columns : a.rows) == c.rows && (b_transposed ? b.rows : b.columns) == c.columns &&
              (b_transposed ? b.columns : b.rows) == k && k > 0,
          label, ": a product of [", a.rows, ", ", a.columns, "]", a_transposed ? "'" : "", " and [", b.rows, ", ",
          b.columns, "]", b_transposed ? "'" : "", " into [", c.rows, ", ", c.columns, "]");
  return k;
}

/// Fails if the product has an activation, which only libraries of GPUs compute.
template <typename T, typename R>
void require_no_activation(const char* label, const MatmulInputs<T, R>& in) {
  require(in.activation == Activation::none, label, ": processors compute no GELU within a product");
}

}  // namespace shoal::kernels
