// SPDX-License-Identifier: Apache-2.0
// The reproducible reduce-scatter and its all-gather, over messages that contain the same sub-range of every rank's shard.
//
// [Note: the summation tree among ranks] Each block is summed along a fixed binary tree over the ranks: ranks that differ in
// the lowest bit are added first. If the number D of ranks is not a power of two, missing leaves are skipped. With D = 2^h
// Q, Q odd, the reduce-scatter has two parts:
// - Recursive halving over the h lowest bits, for j = 0, 1, ..., h - 1: rank d exchanges with rank d XOR 2^j, and keeps the
//   blocks whose index agrees with its own in bit j.
// - Then the Q ranks that agree in these bits exchange directly: each sends its sum of block b to rank b, which adds what it
//   receives along the same kind of tree over the remaining bits.
// So rank d ends with block d. The all-gather makes the same exchanges in the opposite order, farthest partner first. In
// both, a rank sends (D-1)/D of the data, as in a ring, in h + 1 exchanges (h if Q = 1). If every rank first adds its own
// terms in the same kind of tree (zero/accumulation.hpp), the sum has the same bits on every power of two of ranks. On other
// numbers of ranks it is deterministic, but rounds differently.
//
// [Note: the tree on nodes] Ranks are numbered node by node. So if N nodes have 2^k ranks each, for any N, the ranks of a
// node differ in the lowest k bits: the tree goes within nodes first, and only sums over a node cross between nodes. For M
// bytes a rank sends M (1 - 2^-k) within its node, and a node sends M (N-1)/N to other nodes, which is the minimum. If nodes
// have another number of ranks, or different ones, the tree and its sums are the same, but more bytes cross between nodes.
#pragma once

#include <functional>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/comm/planned_exchange.hpp"

namespace shoal::comm {

/// blocks[b]: this rank's copy of the data that belong to rank b, as a list of spans of bytes (one per unit in the message).
/// Spans of block b have the same sizes on all ranks. Different blocks may have different sizes (the last shards may be
/// short or empty). Blocks and scratch memory lie in arenas (device/memory.hpp), since kernels read and write them.
using Block = std::vector<Span<std::byte>>;
using Blocks = std::vector<Block>;

/// The all-gather goes through the steps of the reduce-scatter in the opposite order.
enum class TreeDirection { reduce_scatter, all_gather };

/// Reduce-scatter. On completion blocks[rank] holds the sum over ranks; the other blocks hold partial sums of no further
/// use. Spans must consist of whole elements of the type. Every sum in the tree is rounded to it, as by kernels::add(type,
/// ...). scratch: tree_scratch_bytes(group size, bytes of all blocks together), alive until complete
/// (as comm::Request says: before it is freed, the host must wait for the device); about 10 MiB at most, since data are
/// received in messages of limited size.
Request tree_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch);
/// All-gather of any bytes. On entry blocks[rank] is valid; on completion all blocks are, on all ranks.
Request tree_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch);
std::size_t tree_scratch_bytes(int group_size, std::size_t bytes);
/// Number of exchanges that follow each other: h, and one more if Q > 1.
int tree_exchanges(int group_size);
/// What a rank sends and receives, exchange by exchange. block_bytes: size of each rank's block.
std::vector<PlannedExchange> tree_plan(int rank, TreeDirection direction, const std::vector<std::size_t>& block_bytes);
/// Bytes that a rank sends. block_bytes: size of each rank's block. same_node: returns true for the ranks on this rank's
/// node.
Traffic tree_traffic(int rank, TreeDirection direction, const std::vector<std::size_t>& block_bytes,
                     const std::function<bool(int rank)>& same_node);

}  // namespace shoal::comm
