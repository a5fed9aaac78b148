// SPDX-License-Identifier: Apache-2.0
// Sums over flat buffers that do not depend on ranks or threads: one sum per granule (base/granule.hpp), then a binary
// tree over the granules' indices (zero/tree_sum.hpp).
#pragma once

#include <cstddef>

#include "shoal/base/granule.hpp"

namespace shoal::kernels {

/// sums[i] = sum of squares of x[256 i ... 256 i + 255] in double; the last granule may be shorter. Inf and NaN propagate
/// into the sum.
template <typename T>
void sum_of_squares_by_granule(std::size_t n, const T* x, double* sums);

/// Sum of n floats in double, in fixed groups.
double sum(std::size_t n, const float* x);

}  // namespace shoal::kernels
