// SPDX-License-Identifier: Apache-2.0
// The reproducible tree (comm/tree_reduce.hpp) on a queued group: the same sums, bit for bit, in one or two exchanges.
//
// [Note: the tree in two exchanges] Let r = Communicator::queued_ranks_per_node(), so that rank d has place d % r on its
// part of a node. First each rank receives, from the r ranks of its part, their terms of all blocks with its own place, and
// adds them. Then it receives, from the ranks with its place, their sums of its own block, and adds those. Both additions
// follow the binary tree over the ranks' indices, and r is a power of two, so together they are the tree over all ranks. A
// rank sends as many bytes as in recursive halving, and only sums over a part of a node cross between nodes. The all-gather
// makes the same exchanges in the opposite order.
#pragma once

#include <memory>

#include "shoal/comm/tree_reduce.hpp"

namespace shoal::comm {

/// The operation of tree_reduce_scatter(). Terms are received in pieces, so that those of all ranks fit into `scratch`.
std::shared_ptr<Operation> queued_tree_reduce_scatter(Communicator& group, const Blocks& blocks, DType type,
                                                      Span<std::byte> scratch);
/// The operation of tree_all_gather(). Blocks are received in place.
std::shared_ptr<Operation> queued_tree_all_gather(Communicator& group, const Blocks& blocks);
/// Bytes that this rank sends. block_bytes: size of each rank's block.
Traffic queued_tree_traffic(const Communicator& group, TreeDirection direction, const std::vector<std::size_t>& block_bytes);

}  // namespace shoal::comm
