// SPDX-License-Identifier: Apache-2.0
// Matrix products of 16-bit numbers that the processor has no instructions for (fp16 everywhere, bf16 on many): panels of A
// and B are widened to float, multiplied there, and the result is rounded once. The panels lie in the product's workspace
// and are bounded, whatever the matrices' size.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// Whether products of such matrices are computed here, or by multiply().
bool is_widened(DType type);

/// As multiply(), of f16 or bf16 into the same type or float.
template <typename T, typename R>
void multiply_widened(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
                      const T* bias, const R* added, Span<std::byte> workspace);
/// c_stride: of C as stored.
template <typename R>
std::size_t multiply_widened_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, std::size_t c_stride,
                                             const MatmulOptions& options, bool bias);

}  // namespace shoal::kernels
