// SPDX-License-Identifier: Apache-2.0
// The reproducible reduce-scatter and its all-gather, over messages that take the same sub-range of every rank's shard.
//
// [Note: the summation tree among ranks] Every block is the sum of the binary tree over the ranks' numbers, low bits first;
// where their number D is no power of two, a subtree that is not there counts as absent. With D = 2^h Q, Q odd:
// - Recursive halving over the h lowest bits, partner d^1 first: at distance 2^j rank d exchanges with d^(2^j) and keeps the
//   blocks whose index agrees with its own in bit j.
// - Then the Q ranks that agree in these bits exchange directly: each sends block b to rank b, which adds what it has in
//   the same kind of tree over the remaining bits.
// So rank d ends with block d. The all-gather runs backwards, farthest partner first. Both move (D-1)/D of the data per
// rank, as a ring does, in h + 1 steps (h where Q = 1). The sum is the same on every power of two of ranks; on another
// number it is deterministic, but another one.
//
// [Note: the tree on nodes] Ranks are numbered node by node. So where N nodes have 2^k ranks each, whatever N, the lowest
// bits tell the ranks of a node apart: the tree goes within nodes first, and what crosses is sums over a node. For M bytes a
// rank sends M (1 - 2^-k) within its node, and a node M (N-1)/N to others, the least that is possible. Where nodes have
// another number of ranks, or different ones, it is the same tree with the same sums, but more of it crosses.
#pragma once

#include <functional>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// blocks[b]: where this rank holds what belongs to rank b, as a list of spans of bytes (one per unit in the message).
/// Spans of block b have the same sizes on all ranks; those of different blocks may differ (the last shards may be short or
/// empty).
using Block = std::vector<Span<std::byte>>;
using Blocks = std::vector<Block>;

/// The all-gather goes through the steps of the reduce-scatter in the opposite order.
enum class TreeDirection { reduce_scatter, all_gather };

/// Afterwards blocks[rank] holds the sum over ranks; the other blocks hold partial sums of no further use. Spans are whole
/// numbers of the type's elements; sums are made by kernels::add(type, ...), so every node of the tree is rounded to the
/// type. scratch: tree_scratch_bytes(group size, bytes of all blocks together), alive until complete; some 10 MiB at
/// most, since messages arrive in pieces.
Request tree_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch);
/// Before: blocks[rank] is valid. Afterwards: all are, on all ranks. Any bytes.
Request tree_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch);
std::size_t tree_scratch_bytes(int group_size, std::size_t bytes);
/// Exchanges that follow each other: h, and one more where Q > 1.
int tree_exchanges(int group_size);
/// What a rank sends: blocks of so many bytes, one per rank of the group, of which same_node tells the rank's mates.
Traffic tree_traffic(int rank, TreeDirection direction, const std::vector<std::size_t>& block_bytes,
                     const std::function<bool(int rank)>& same_node);

}  // namespace shoal::comm
