// SPDX-License-Identifier: Apache-2.0
// Sums over flat buffers that do not depend on ranks or threads: per piece of 256 elements, then by a binary tree over the
// piece's index (zero/tree_sum.hpp).
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

inline constexpr std::size_t piece = 256;

/// sums[i] = sum of squares of x[256 i ... 256 i + 255] in double (the last piece may be short). Inf and NaN show in the
/// sum.
template <typename T>
void sum_of_squares_by_piece(std::size_t n, const T* x, double* sums);

/// Sum of n floats in double, in fixed groups.
double sum(std::size_t n, const float* x);

}  // namespace shoal::kernels
