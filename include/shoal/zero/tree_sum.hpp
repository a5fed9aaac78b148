// SPDX-License-Identifier: Apache-2.0
// Sums over a flat buffer that are the same on any number of ranks: one number per piece of 256 elements, joined by a
// binary tree over the piece's index. A rank sums the largest complete subtrees of its shard; the ranks exchange these few
// numbers, and each joins the rest of the tree.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::zero {

/// Sums of the largest subtrees that lie in `own` (pieces of the buffer's `pieces`), left to right. sums[i] belongs to piece
/// own.begin + i. At most 2 log2(pieces) numbers.
std::vector<double> subtree_sums(std::size_t granules, Range own, Span<const double> sums);

/// How many numbers subtree_sums() returns.
std::size_t subtree_count(std::size_t granules, Range own);

/// The whole tree's sum from all ranks' subtree sums: owners[r] is rank r's range of pieces, values[r] its subtree_sums().
double join_subtrees(std::size_t granules, const std::vector<Range>& owners, const std::vector<Span<const double>>& values);

}  // namespace shoal::zero
