// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter of quantized blocks, for links that are slower than quantization (ZeRO++: Wang et al. 2023,
// arXiv 2306.10209, sections 3.1 and 3.3). What travels are codes and scales (kernels/quantize.hpp); every span of a block
// is quantized by itself. Deterministic; the sums are not those of the reproducible tree.
//
// With QuantRounding::accurate nothing is quantized that does not travel: a rank's own share of a sum is added as it is
// (with ::deepspeed it is quantized like all others, as the library does).
#pragma once

#include <string>
#include <vector>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::comm {

/// Before: blocks[rank] is valid. Afterwards all are, on all ranks: what the owner's codes stand for, rounded to the type,
/// on the owner too, so that all ranks hold the same. A group of one keeps its numbers as they are. Codes are made once, by
/// their owner, and forwarded unchanged as tree_all_gather() moves bytes: between nodes of 2^k ranks each block goes once.
/// scratch: quantized_gather_scratch_bytes(), alive until complete. error, where not null: what quantization took from this
/// rank's own block is added to it before the call returns. residual, where not empty: an element for each of this rank's
/// own block, added to it, and what quantization takes from the sum becomes the residual (error feedback); in what overflows
/// it stays as it is.
Request quantized_all_gather(Communicator& group, Blocks blocks, DType type, const kernels::QuantFormat& format,
                             Span<std::byte> scratch, kernels::QuantError* error = nullptr, Span<float> residual = {});
/// Bytes on the wire of a block: elements of each of its spans.
std::size_t quantized_block_bytes(const std::vector<std::size_t>& spans, const kernels::QuantFormat& format);
/// For blocks of so many elements in so many spans (those that are not empty), all blocks together.
std::size_t quantized_gather_scratch_bytes(int group_size, std::size_t elements, std::size_t spans,
                                           const kernels::QuantFormat& format);

/// Ranks of equal nodes: rank d of node s is rank s * node.size() + d of all, d of node, and s of across.
struct Hierarchy {
  Communicator& all;
  Communicator& node;
  Communicator& across;
};

/// Formats of the two steps of quantized_reduce_scatter(): within nodes, and across. They may differ in their bits.
struct ReduceFormats {
  kernels::QuantFormat node, across;
};

/// What quantization took away from what a rank sent, to be added the next time (error feedback). One pair for each message
/// that is reduced again and again, zero at first, alive until complete; empty: none is kept. What is not quantized, and
/// what overflows, leaves its residual as it is.
struct Residuals {
  Span<float> node;    ///< an element for each of all blocks, in their order
  Span<float> across;  ///< and for each of the blocks s * node.size() + node.rank(), in the order of s
};

/// Afterwards blocks[rank of all] holds the sum over all ranks, made in fp32 and rounded to the type once; the other blocks
/// are as they were. Two all-to-alls:
/// 1. To rank d of its node a rank sends, quantized, its blocks s * node.size() + d of all nodes s. Each adds what it has
///    got, in the order of the ranks.
/// 2. It quantizes these sums over its node and sends number s to the rank of its own number on node s, which adds them in
///    the order of the nodes.
/// So shards end at their owners, and a block of the message crosses between nodes once per other node. The first step falls
/// away on nodes of one rank, the second on a single node. Spans of block b have the same sizes on all ranks.
/// scratch: quantized_reduce_scratch_bytes(), aligned as float, alive until complete. error, where not null, alive until
/// complete: what quantization took from this rank's own numbers is added to it (in the first step, or on nodes of one rank
/// in the second; sums over a node are not measured).
Request quantized_reduce_scatter(const Hierarchy& ranks, Blocks blocks, DType type, const ReduceFormats& formats,
                                 Span<std::byte> scratch, const Residuals& residuals = {},
                                 kernels::QuantError* error = nullptr);
/// What a rank of all sends: block_spans[b] are the elements of block b's spans.
Traffic quantized_reduce_traffic(int rank, int ranks_per_node, const std::vector<std::vector<std::size_t>>& block_spans,
                                 const ReduceFormats& formats);
/// For blocks of at most so many elements, in at most so many spans, each.
std::size_t quantized_reduce_scratch_bytes(int ranks_per_node, int nodes, std::size_t block_elements,
                                           std::size_t block_spans, const ReduceFormats& formats);

}  // namespace shoal::comm
