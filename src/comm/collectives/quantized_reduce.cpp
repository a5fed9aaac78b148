// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "comm/collectives/all_to_all.hpp"
#include "comm/collectives/quantized_blocks.hpp"
#include "shoal/base/bump_allocator.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/quantized.hpp"

namespace shoal::comm {

using kernels::QuantError;
using kernels::QuantFormat;
using kernels::QuantRounding;

namespace {

std::size_t size_of_group(const Communicator& group) { return static_cast<std::size_t>(group.size()); }
std::size_t rank_in(const Communicator& group) { return static_cast<std::size_t>(group.rank()); }

bool quantizes_own(const QuantFormat& format) { return format.rounding == QuantRounding::deepspeed; }

/// The offset of each of `count` parts that lie one after the other. Computed once, because there may be thousands of nodes.
template <class SizeOf>
std::vector<std::size_t> begins_of(std::size_t count, const SizeOf& size) {
  std::vector<std::size_t> begins(count);
  for (std::size_t i = 1; i < count; ++i) begins[i] = begins[i - 1] + size(i - 1);
  return begins;
}

/// Memory for the codes that a rank sends to each rank of a group, and for those that it receives from each.
struct Regions {
  std::vector<Span<std::byte>> out, in;

  /// out_bytes(r): bytes sent to rank r; in_bytes: bytes received from each rank.
  template <class OutBytes>
  Regions(const Communicator& group, const QuantFormat& format, BumpAllocator& memory, const OutBytes& out_bytes,
          std::size_t in_bytes)
      : out(size_of_group(group)), in(size_of_group(group)) {
    if (size_of_group(group) == 1) return;
    for (std::size_t r = 0; r < out.size(); ++r) {
      if (r != rank_in(group) || quantizes_own(format)) out[r] = memory.take_bytes(out_bytes(r));
    }
    // One after another, at equal distances: kernels on a GPU are told of all of them by one distance.
    for (std::size_t r = 0; r < in.size(); ++r) {
      if (r != rank_in(group)) in[r] = memory.take_bytes(in_bytes);
    }
  }
};

class QuantizedReduce final : public Operation {
 public:
  QuantizedReduce(const Hierarchy& ranks, Blocks blocks, DType type, const ReduceFormats& formats, Span<std::byte> scratch,
                  const Residuals& residuals, QuantError* errors)
      : QuantizedReduce(ranks, std::move(blocks), type, formats, BumpAllocator(scratch, 1), residuals, errors) {}

  std::string_view name() const override { return "reduce_scatter"; }
  std::string describe() const override { return text("quantized reduce_scatter of ", name_of_group_); }

  bool advance() override {
    if (!within_node_.finish()) return false;
    if (summed_ < nodes_) {
      // One call sums over this node for one other node, so that no call takes long. Finished sums are already being sent.
      sum_over_node(summed_ + 1 < nodes_ ? across_nodes_.partners()[summed_] : node_);
      ++summed_;
      across_nodes_.advance();
      return false;
    }
    if (!across_nodes_.finish()) return false;
    if (nodes_ > 1) sum_over_nodes();
    return true;
  }

 protected:
  bool whole_at_start() const override { return queued_; }

 private:
  QuantizedReduce(const Hierarchy& ranks, Blocks blocks, DType type, const ReduceFormats& formats, BumpAllocator memory,
                  const Residuals& residuals, QuantError* errors)
      : blocks_(std::move(blocks)),
        type_(type),
        formats_(formats),
        residuals_(residuals),
        errors_(errors),
        name_of_group_(ranks.all.name()),
        queued_(ranks.all.queued()),
        ranks_per_node_(size_of_group(ranks.node)),
        nodes_(size_of_group(ranks.across)),
        local_rank_(rank_in(ranks.node)),
        node_(rank_in(ranks.across)),
        sums_(memory.take_bytes(sums_bytes())),
        node_codes_(
            ranks.node, formats.node, memory, [this](std::size_t d) { return column_bytes(d); }, column_bytes(local_rank_)),
        across_codes_(
            ranks.across, formats.across, memory, [this](std::size_t s) { return own_bytes(s); }, own_bytes(node_)),
        within_node_(ranks.node),
        across_nodes_(ranks.across),
        code_begins_(begins_of(nodes_, [this](std::size_t s) { return wire_bytes(own_block(s), type_, formats_.node); })),
        node_residual_begins_(begins_of(residuals.node.empty() ? 0 : blocks_.size(),
                                        [this](std::size_t b) { return elements_of(blocks_[b], type_); })),
        across_residual_begins_(begins_of(residuals.across.empty() ? 0 : nodes_,
                                          [this](std::size_t s) { return elements_of(own_block(s), type_); })) {
    for (const std::size_t to : within_node_.partners()) quantize_within_node(to);
    quantize_within_node(local_rank_);  // not sent
  }

  const Block& block(std::size_t node, std::size_t local) const { return blocks_[node * ranks_per_node_ + local]; }
  const Block& own_block(std::size_t node) const { return block(node, local_rank_); }

  std::size_t column_bytes(std::size_t local) const {
    std::size_t bytes = 0;
    for (std::size_t s = 0; s < nodes_; ++s) bytes += wire_bytes(block(s, local), type_, formats_.node);
    return bytes;
  }
  std::size_t own_bytes(std::size_t node) const { return wire_bytes(own_block(node), type_, formats_.across); }

  /// Sums over this node of its own blocks are not quantized, but stored as float.
  std::size_t sums_bytes() const {
    if (ranks_per_node_ == 1 || nodes_ == 1 || quantizes_own(formats_.across)) return 0;
    return round_up(elements_of(own_block(node_), type_) * sizeof(float), cache_line);
  }

  /// First step: quantizes this rank's copies of the blocks of one local rank on all nodes, and starts to send them.
  void quantize_within_node(std::size_t local) {
    const Span<std::byte> region = node_codes_.out[local];
    std::byte* codes = region.data();
    for (std::size_t s = 0; s < nodes_ && codes != nullptr; ++s) {
      const std::size_t b = s * ranks_per_node_ + local;
      float* const residual = residuals_.node.empty() ? nullptr : residuals_.node.data() + node_residual_begins_[b];
      quantize_own(blocks_[b], formats_.node, residual, codes);
      codes += wire_bytes(blocks_[b], type_, formats_.node);
    }
    if (local != local_rank_) within_node_.exchange(local, region, node_codes_.in[local]);
    within_node_.advance();
  }

  void quantize_own(const Block& block, const QuantFormat& format, float* residual, std::byte* codes) {
    quantize_sum(block, type_, {BlockTerm::of(block)}, format, residual, codes);
    add_error(block, type_, codes, format, errors_);
  }

  /// The terms that the ranks of this node contribute to the block of this local rank on a node, in the order of the ranks.
  std::vector<BlockTerm> held_on_node(std::size_t node) const {
    std::vector<BlockTerm> terms;
    for (std::size_t d = 0; d < ranks_per_node_; ++d) {
      const Span<std::byte> codes = d == local_rank_ ? node_codes_.out[d] : node_codes_.in[d];
      const bool quantized = d != local_rank_ || quantizes_own_within();
      terms.push_back(quantized ? BlockTerm::of_codes(formats_.node.bits, codes.data() + code_begins_[node])
                                : BlockTerm::of(own_block(node)));
    }
    return terms;
  }

  /// Sums the block of a node over this node's ranks. The sum for another node is quantized and sent there.
  void sum_over_node(std::size_t node) {
    const Block& block = own_block(node);
    if (nodes_ == 1) return sum_to_block(block, type_, held_on_node(node), formats_.node);
    if (node == node_ && !quantizes_own(formats_.across)) {
      if (ranks_per_node_ > 1) sum_to_floats(block, type_, held_on_node(node), formats_.node, floats());
      return;
    }
    float* const residual = residuals_.across.empty() ? nullptr : residuals_.across.data() + across_residual_begins_[node];
    std::byte* const codes = across_codes_.out[node].data();
    if (ranks_per_node_ == 1) {
      quantize_own(block, formats_.across, residual, codes);
    } else {
      quantize_sum(block, type_, held_on_node(node), formats_.across, residual, codes);
    }
    if (node != node_) across_nodes_.exchange(node, across_codes_.out[node], across_codes_.in[node]);
  }

  /// Adds the nodes' sums of this rank's own block, in the order of the nodes.
  void sum_over_nodes() {
    const Block& block = own_block(node_);
    std::vector<BlockTerm> terms;
    for (std::size_t s = 0; s < nodes_; ++s) {
      const Span<std::byte> codes = s == node_ ? across_codes_.out[s] : across_codes_.in[s];
      if (s != node_ || quantizes_own(formats_.across)) {
        terms.push_back(BlockTerm::of_codes(formats_.across.bits, codes.data()));
      } else {
        terms.push_back(ranks_per_node_ > 1 ? BlockTerm::of_floats(floats()) : BlockTerm::of(block));
      }
    }
    sum_to_block(block, type_, terms, formats_.across);
  }

  float* floats() const { return reinterpret_cast<float*>(sums_.data()); }
  bool quantizes_own_within() const { return ranks_per_node_ > 1 && quantizes_own(formats_.node); }

  Blocks blocks_;
  DType type_;
  ReduceFormats formats_;
  Residuals residuals_;
  QuantError* errors_;
  const std::string& name_of_group_;
  bool queued_;
  std::size_t ranks_per_node_, nodes_;  // ranks of a node, nodes
  std::size_t local_rank_, node_;       // this rank's place on its node, and its node's
  Span<std::byte> sums_;
  Regions node_codes_, across_codes_;
  AllToAll within_node_, across_nodes_;
  std::vector<std::size_t> code_begins_;             // by node: of its block in a region of node_codes_
  std::vector<std::size_t> node_residual_begins_;    // by rank: of its block in residuals_.node
  std::vector<std::size_t> across_residual_begins_;  // by node: of its block in residuals_.across
  std::size_t summed_ = 0;
};

void check_residual(Span<const float> residual, std::size_t elements) {
  require(residual.empty() || residual.size() == elements, "a residual of ", residual.size(), " elements for ", elements);
}

}  // namespace

Request quantized_reduce_scatter(const Hierarchy& ranks, Blocks blocks, DType type, const ReduceFormats& formats,
                                 Span<std::byte> scratch, const Residuals& residuals, QuantError* errors) {
  const std::size_t locals = size_of_group(ranks.node), nodes = size_of_group(ranks.across), all = size_of_group(ranks.all);
  require(locals * nodes == all && rank_in(ranks.across) * locals + rank_in(ranks.node) == rank_in(ranks.all), "rank ",
          ranks.all.rank(), " of ", all, " is rank ", ranks.node.rank(), " of ", locals, " on node ", ranks.across.rank(),
          " of ", nodes, ": nodes must be equal for a quantized reduce_scatter");
  require(formats.node.block == formats.across.block && formats.node.rounding == formats.across.rounding,
          "the two steps of a quantized reduce_scatter differ in block or rounding");
  check_blocks(blocks, all, type);
  std::size_t elements = 0, column = 0;
  for (std::size_t b = 0; b < all; ++b) {
    const std::size_t count = elements_of(blocks[b], type);
    elements += count;
    if (b % locals == rank_in(ranks.node)) column += count;
  }
  check_residual(residuals.node, elements);
  check_residual(residuals.across, column);
  if (all == 1) return {};
  std::vector<std::vector<std::size_t>> spans(all);
  for (std::size_t b = 0; b < all; ++b) {
    for (const Span<std::byte> span : blocks[b]) spans[b].push_back(span.size() / size_of(type));
  }
  const Traffic sent = quantized_reduce_traffic(ranks.all.rank(), ranks.node.size(), spans, formats);
  return ranks.all.start(
      std::make_shared<QuantizedReduce>(ranks, std::move(blocks), type, formats, scratch, residuals, errors), sent);
}

Traffic quantized_reduce_traffic(int rank, int ranks_per_node, const std::vector<std::vector<std::size_t>>& block_spans,
                                 const ReduceFormats& formats) {
  const QuantizedReducePlan plan = quantized_reduce_plan(rank, ranks_per_node, block_spans, formats);
  Traffic traffic;
  for (const PartnerBytes& with : plan.node) traffic.intra += with.sent;
  for (const PartnerBytes& with : plan.across) traffic.inter += with.sent;
  return traffic;
}

QuantizedReducePlan quantized_reduce_plan(int rank, int ranks_per_node,
                                          const std::vector<std::vector<std::size_t>>& block_spans,
                                          const ReduceFormats& formats) {
  const auto own = static_cast<std::size_t>(rank), locals = static_cast<std::size_t>(ranks_per_node);
  const std::size_t local = own % locals, node = own / locals, nodes = block_spans.size() / locals;
  const auto column = [&](std::size_t of) {  // the blocks of one local rank on all nodes
    std::size_t bytes = 0;
    for (std::size_t b = of; b < block_spans.size(); b += locals)
      bytes += quantized_block_bytes(block_spans[b], formats.node);
    return bytes;
  };
  QuantizedReducePlan plan;
  const std::size_t own_column = locals > 1 ? column(local) : 0;
  for (const std::size_t to : partners_in_order(local, locals)) {
    plan.node.push_back({static_cast<int>(node * locals + to), column(to), own_column});
  }
  const std::size_t own_block = quantized_block_bytes(block_spans[own], formats.across);
  for (const std::size_t to : partners_in_order(node, nodes)) {
    const std::size_t block = to * locals + local;
    plan.across.push_back({static_cast<int>(block), quantized_block_bytes(block_spans[block], formats.across), own_block});
  }
  return plan;
}

std::size_t quantized_reduce_scratch_bytes(int ranks_per_node, int nodes_of_them, std::size_t block_elements,
                                           std::size_t block_spans, const ReduceFormats& formats) {
  const auto locals = static_cast<std::size_t>(ranks_per_node), nodes = static_cast<std::size_t>(nodes_of_them);
  // Codes to and from each rank of the node, or each node, including this one.
  std::size_t bytes = 0;
  if (locals > 1) bytes += 2 * locals * nodes * most_wire_bytes(block_elements, block_spans, formats.node);
  if (nodes > 1) bytes += 2 * nodes * most_wire_bytes(block_elements, block_spans, formats.across);
  if (locals > 1 && nodes > 1) bytes += round_up(block_elements * sizeof(float), cache_line);
  return bytes;
}

}  // namespace shoal::comm
