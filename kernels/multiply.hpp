// SPDX-License-Identifier: Apache-2.0
// Matrix products in the types that the library multiplies, tile by tile: what is behind matmul(). Shapes are checked there.
#pragma once

#include <array>
#include <cstddef>

#include "shoal/base/types.hpp"
#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

/// As matmul(), with a workspace of its own. Instances: <float, float>, <bf16, bf16>, <bf16, float>.
template <typename T, typename R>
void multiply(const char* label, Matrix<const T> a, Matrix<const T> b, Matrix<R> c, const MatmulOptions& options,
              const T* bias, const R* added, Span<std::byte> workspace);
/// strides: of A, B and C as stored.
template <typename T, typename R>
std::size_t multiply_workspace_bytes(std::size_t m, std::size_t n, std::size_t k, std::array<std::size_t, 3> strides,
                                     const MatmulOptions& options, bool bias);

void require_workspace(const char* label, std::size_t m, std::size_t n, std::size_t k, std::size_t bytes,
                       Span<std::byte> workspace);

}  // namespace shoal::kernels
