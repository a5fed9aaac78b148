// SPDX-License-Identifier: Apache-2.0
// Sums over flat buffers that do not depend on ranks or threads: one sum per granule (base/granule.hpp), then a binary
// tree over the granules' indices (zero/tree_sum.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/granule.hpp"

namespace shoal::kernels {

/// sums[i] = sum of squares of x[256 i ... 256 i + 255] in double; the last granule may be shorter. Inf and NaN propagate
/// into the sum.
template <typename T>
void sum_of_squares_by_granule(std::size_t n, const T* x, double* sums);

/// *sum = the sum of n floats in double, in fixed groups.
void sum(std::size_t n, const float* x, double* sum);

/// `count` ranges of a buffer, one behind the other: range i is begin[i] ... begin[i + 1] - 1. None is empty.
struct Subtrees {
  static constexpr std::size_t most = 64;
  std::uint32_t count = 0;
  std::uint32_t begin[most + 1] = {};
};
/// sums[i] = the sum of the values of range i by a binary tree: neighbours are added, then neighbouring sums of two, then of
/// four, and so on; a last one without a partner moves up. Overwrites the values.
void sum_subtrees(const Subtrees& subtrees, double* values, double* sums);

}  // namespace shoal::kernels
