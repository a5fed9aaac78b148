// SPDX-License-Identifier: Apache-2.0
// Matrix products whose operands are not widened beforehand, tile by tile: what matmul() calls after it has checked the
// shapes.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// As matmul(), but not products of Multiplier::widened.
template <typename T, typename R>
void multiply(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace);
/// The strides must not be 0.
template <typename T, typename R>
std::size_t multiply_workspace_bytes(const MatmulShape& shape);

template <typename T, typename R>
MatmulShape shape_of(const MatmulInputs<T, R>& in, const Matrix<R>& c) {
  return {.m = c.rows,
          .n = c.columns,
          .k = in.transpose_a == Transpose::yes ? in.a.rows : in.a.columns,
          .transpose_a = in.transpose_a,
          .transpose_b = in.transpose_b,
          .bias = in.bias != nullptr,
          .added = in.added != nullptr,
          .a_stride = in.a.stride,
          .b_stride = in.b.stride,
          .c_stride = c.stride};
}

/// Fails if the workspace is smaller than `bytes`.
void require_workspace(const char* label, const MatmulShape& shape, std::size_t bytes, Span<std::byte> workspace);

}  // namespace shoal::kernels
