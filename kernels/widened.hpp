// SPDX-License-Identifier: Apache-2.0
// Matrix products of fp16, which the library has none of: panels of A and B are widened to float, multiplied there, and the
// result is rounded once. The panels lie in the product's workspace and are bounded, whatever the matrices' size.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// As multiply(), of fp16 into f16 or float.
template <typename R>
void multiply_widened(const char* label, Matrix<const f16> a, Matrix<const f16> b, Matrix<R> c, const MatmulOptions& options,
                      const f16* bias, const R* added, Span<std::byte> workspace);
/// c_stride: of C as stored.
template <typename R>
std::size_t multiply_widened_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, std::size_t c_stride,
                                             const MatmulOptions& options, bool bias);

}  // namespace shoal::kernels
