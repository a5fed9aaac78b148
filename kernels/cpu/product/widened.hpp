// SPDX-License-Identifier: Apache-2.0
// Matrix products of 16-bit numbers that the processor has no instructions for: Multiplier::widened. Panels of A and B are
// converted to float and multiplied, and the result is rounded once. The panels are part of the product's workspace; their
// size is bounded, however large the matrices are.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// As matmul(), from f16 or bf16 to the same type or float.
template <typename T, typename R>
void multiply_widened(const char* label, const MatmulInputs<T, R>& in, Matrix<R> c, Span<std::byte> workspace);
/// shape.c_stride must not be 0; the other strides are not used.
template <typename R>
std::size_t multiply_widened_workspace_bytes(const MatmulShape& shape);

}  // namespace shoal::kernels
