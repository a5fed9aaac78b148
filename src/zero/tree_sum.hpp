// SPDX-License-Identifier: Apache-2.0
// Sums over a flat buffer that have the same bits on any number of ranks: one sum per granule, added in a binary tree over
// the index of the granule. A rank adds the largest complete subtrees of its shard; the ranks exchange these few sums, and
// each adds the rest of the tree.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::zero {

/// The largest subtrees within `own`, a range of the buffer's granules, left to right; granule own.begin counts as 0. These
/// are at most 2 log2(granules). kernels::sum_subtrees() adds each of them in the order of the whole tree.
kernels::Subtrees subtrees(std::size_t granules, Range own);

/// Number of these subtrees.
std::size_t subtree_count(std::size_t granules, Range own);

/// Sum of the whole tree: owners[r] is the range of granules of rank r, values[r] the sums of its subtrees.
double join_subtrees(std::size_t granules, const std::vector<Range>& owners, const std::vector<Span<const double>>& values);

}  // namespace shoal::zero
