// SPDX-License-Identifier: Apache-2.0
// The mean of the master parameters over all nodes: a reduce-scatter by the fixed tree over the nodes' numbers, a division
// by their number, an all-gather. Every node ends with the same bits.
//
// In 16 or 8 bits what is sent, and summed, are differences from what the nodes had in common when they met last: a half or
// a quarter of the bytes, and an error in proportion to how far a parameter has moved since, not to its size. What nodes
// have in common is the same on all of them bit by bit, and so is what they add to it. It takes the memory of another copy
// of this rank's shards.
//   bf16: summed in the tree in bf16; an error of 2^-9.
//   int8: blocks with a scale each (comm/quantized.hpp), summed in fp32; an error of 0.6 % rms of normal differences.
//         What it takes away is kept, of what a rank sends to each owner and of the mean that an owner sends to all, and
//         added the next time (error feedback: Seide et al. 2014): after 32 means the sum of them is off by as much as
//         after one, in bf16 by 5 to 9 times that of one, in int8 without feedback by 5 (tests/sync/means_test.cpp).
//
// Overlapped, a mean is on its way while the nodes train on, and is taken in some steps later: x = mean + (x - sent), x
// having moved by local steps since it was sent (CoCoD-SGD: Shen et al. 2019, arXiv 1906.12043, algorithm 1). So no part of
// a local step is lost, and taking a mean in does not move the mean over the nodes. Overlap Local-SGD (Wang et al. 2020,
// arXiv 2002.09539) and Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512) hide the same exchange, but draw x a part
// of the way to what arrives, at the cost of that part of the steps between. It takes another copy of the shards, and in
// fp32 two.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/comm/reducer.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/sync/options.hpp"
#include "shoal/sync/sub_shards.hpp"

namespace shoal::sync {

/// How means travel.
struct Sending {
  DType type = DType::f32;                        ///< bf16: differences in bf16
  std::optional<kernels::QuantFormat> quantized;  ///< differences in this format; type is f32 then
  bool overlap = false;
};
/// quant_block: zero.quant_block.
Sending sending_of(const SyncOptions& options, std::size_t quant_block);

class Average {
 public:
  /// shares must outlive this. On one node nothing is sent, and no memory taken.
  Average(const SubShards& sub_shards, const NodeGroups& groups, const Sending& sending, Memory& memory);
  Average(const Average&) = delete;
  Average& operator=(const Average&) = delete;

  /// Collective over all nodes, before the first mean: what nodes have in common is the mean of what they have.
  void set_reference();

  /// What is done to the mean of each unit's share, on the one rank that has it, before the others get it. Called within
  /// communication's progress: it must not communicate.
  using Update = std::function<void(std::size_t unit, Range sub_shard, Span<float> mean)>;
  /// Collective over all nodes: begins to take the mean of this rank's shards as they are now, updated. With overlap they
  /// may change meanwhile; without it apply_mean() follows at once.
  void start(Update update = {});
  /// Until the mean is here. The shards are as they were.
  void wait_for_mean();
  /// The mean that is under way, if one is, is waited for and becomes this rank's shards, with what they have moved since.
  void apply_mean();
  bool in_flight() const { return in_flight_; }
  /// The mean in fp32, at once, however start() sends it.
  void run_exactly();

  /// Collective in the node: what every rank of it keeps whole (stage 0) is gathered from the shards.
  void gather_in_node();

  bool in_differences() const { return !reference_.empty(); }
  /// For checkpoints, out of this rank's shards; no mean is on its way meanwhile (wait_for_mean()). What nodes have in
  /// common, /common/NAME; none where means are sent in fp32.
  std::vector<NamedSlice> common_slices(const std::vector<model::UnitLayout>& units, const std::vector<Range>& wanted) const;
  /// This node's own: /average/lost/NAME, by quantization.
  std::vector<NamedSlice> lost_slices(const std::vector<model::UnitLayout>& units) const;
  /// Overlapped, of a mean that is under way: /average/sent/NAME, this node's own, and where nodes have nothing else in
  /// common the mean itself, /average/mean/NAME.
  std::vector<NamedSlice> sent_slices(const std::vector<model::UnitLayout>& units) const;
  std::vector<NamedSlice> mean_slices(const std::vector<model::UnitLayout>& units, const std::vector<Range>& wanted) const;
  /// What sent_slices() and mean_slices() named was read back.
  void restore() { in_flight_ = arrived_ = true; }

 private:
  class MeanOperation;

  std::size_t scratch_bytes() const;
  comm::Request reduce(Range units);
  void make_mean(std::size_t unit, const Update& update);
  comm::Request gather(Range units);
  comm::Blocks messages(Range units) const;
  Span<std::byte> message(std::size_t unit, Range range) const;
  Span<float> floats(std::size_t unit, Range range) const;
  const float* common(std::size_t unit, Range range) const;
  bool alone() const { return groups_.across.ranks == 1; }

  const SubShards* sub_shards_;
  NodeGroups groups_;
  Sending sending_;
  std::unique_ptr<comm::Reducer> reducer_;          // of the means, as sending_ says
  std::unique_ptr<comm::Reducer> exact_, in_node_;  // in fp32 as it is: over the nodes, within this one
  std::vector<Span<float>> reference_;              // by unit: of this rank's shard; empty: parameters themselves are sent
  std::vector<Span<std::byte>> message_;            // by unit, in sending_.type; empty: the shards themselves are
  std::vector<Span<float>> sent_;                   // by unit: the shards that a mean under way is of; empty without overlap
  // By unit; empty unless quantized. Of this rank's share: what the mean lost; of the rest of its shard: what it sent there.
  std::vector<Span<float>> residuals_;
  Span<float> mean_;  // of a unit's share, where it is sent in 16 bits
  Span<std::byte> scratch_;
  comm::Request request_;
  bool in_flight_ = false, arrived_ = false;
};

}  // namespace shoal::sync
