// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter of quantized blocks, for links that are slower than quantization (ZeRO++: Wang et al. 2023,
// arXiv 2306.10209, sections 3.1 and 3.3). Codes and scales are sent (kernels/quantize.hpp). Every span of a block is
// quantized by itself. The results are deterministic, but differ from those of the reproducible tree.
//
// "Alive until complete" is meant as with comm::Request: then enqueued work may use the memory for something else, but
// before it is freed, or touched by the host, the host must wait for the device.
//
// With QuantRounding::accurate, values that are not sent are not quantized: a rank's own contribution to a sum is added
// exactly. With ::deepspeed it is quantized like all others, as in DeepSpeed.
#pragma once

#include <string>
#include <vector>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::comm {

/// All-gather. On entry blocks[rank] is valid; on completion all blocks are, on all ranks. Each owner quantizes its block
/// once, and tree_all_gather() forwards the codes unchanged, so between nodes of 2^k ranks each block is sent once. Every
/// rank, the owner too, stores the dequantized values, rounded to the type, so all ranks hold the same bits. In a group of
/// one rank the values stay as they are.
/// scratch: quantized_gather_scratch_bytes(), alive until complete.
/// errors: if not null, kernels::quant_error_parts parts, to which a kernel adds the quantization error of this rank's own
/// block; alive until complete.
/// residual: if not empty, it has one element for each element of this rank's own block (error feedback). It is added to the
/// block before quantization, and then set to the new quantization error; elements that overflow keep their residual.
Request quantized_all_gather(Communicator& group, Blocks blocks, DType type, const kernels::QuantFormat& format,
                             Span<std::byte> scratch, kernels::QuantError* errors = nullptr, Span<float> residual = {});
/// Number of bytes that are sent for a block. spans: number of elements of each of its spans.
std::size_t quantized_block_bytes(const std::vector<std::size_t>& spans, const kernels::QuantFormat& format);
/// elements, spans: of all blocks together; empty spans need not be counted.
std::size_t quantized_gather_scratch_bytes(int group_size, std::size_t elements, std::size_t spans,
                                           const kernels::QuantFormat& format);

/// The groups of ranks on equal nodes: local rank d of node s is rank s * node.size() + d of all, d of node, and s of
/// across. If `all` is queued, so are the others, unless they have one rank.
struct Hierarchy {
  Communicator& all;
  Communicator& node;
  Communicator& across;
};

/// Formats of the two steps of quantized_reduce_scatter(), within nodes and across them. They may differ in bits only.
struct ReduceFormats {
  kernels::QuantFormat node, across;
};

/// Error feedback: the quantization errors of the values that a rank sent, which are added the next time. One pair for each
/// message that is reduced repeatedly; zero at first, alive until complete; empty for no error feedback. Values that are not
/// quantized, or that overflow, leave their residual unchanged.
struct Residuals {
  Span<float> node;    ///< first step: one element for each element of all blocks, in the order of the blocks
  Span<float> across;  ///< second step: likewise for the blocks s * node.size() + node.rank(), in the order of s
};

/// Reduce-scatter. On completion blocks[rank of all] holds the sum over all ranks, computed in fp32 and rounded to the type
/// once; the other blocks are unchanged. It consists of two all-to-alls:
/// 1. Within nodes: each rank sends its blocks s * node.size() + d of all nodes s, quantized, to local rank d. Each rank
/// adds
///    what it receives, in the order of the ranks.
/// 2. Across nodes: each rank quantizes these sums, and sends the sum for node s to the rank with the same local rank on
///    node s, which adds what it receives in the order of the nodes.
/// So each block ends at its owner, and the sum of a node for a block is sent to another node once. Nodes of one rank need
/// no first step, a single node needs no second one. Spans of block b have the same sizes on all ranks. scratch:
/// quantized_reduce_scratch_bytes(), aligned as float, alive until complete. errors: if not null, kernels::quant_error_parts
/// parts, alive until complete. Kernels add to them the quantization error of this rank's own values: that of the first
/// step, or on nodes of one rank that of the second. The errors of sums over a node are not included.
Request quantized_reduce_scatter(const Hierarchy& ranks, Blocks blocks, DType type, const ReduceFormats& formats,
                                 Span<std::byte> scratch, const Residuals& residuals = {},
                                 kernels::QuantError* errors = nullptr);
/// Bytes that a rank of all sends. block_spans[b]: number of elements of each of block b's spans.
Traffic quantized_reduce_traffic(int rank, int ranks_per_node, const std::vector<std::vector<std::size_t>>& block_spans,
                                 const ReduceFormats& formats);
/// What it sends and receives within its node, then across nodes. Partners are ranks of all. A step that has no partners is
/// empty.
struct QuantizedReducePlan {
  PlannedExchange node, across;
};
QuantizedReducePlan quantized_reduce_plan(int rank, int ranks_per_node,
                                          const std::vector<std::vector<std::size_t>>& block_spans,
                                          const ReduceFormats& formats);
/// block_elements, block_spans: the largest number of elements, and of spans, of a block.
std::size_t quantized_reduce_scratch_bytes(int ranks_per_node, int nodes, std::size_t block_elements,
                                           std::size_t block_spans, const ReduceFormats& formats);

}  // namespace shoal::comm
