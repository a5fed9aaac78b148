// SPDX-License-Identifier: Apache-2.0
// The mean of the master parameters over all nodes: a reduce-scatter by the fixed tree over the nodes' numbers
// (comm/tree_reduce.hpp), a division by the number of nodes, and an all-gather. All nodes end with the same bits.
//
// With sync.average_dtype = bf16 or int8 nodes send and sum differences from the reference: the parameters that they had in
// common after the last mean. That takes a half or a quarter of the bytes, and the error is proportional to how far a
// parameter has moved since then, not to its size. The reference is bitwise the same on all nodes, and so is what they add
// to it. It takes the memory of another copy of this rank's shards.
//   bf16: summed in the tree in bf16; the relative error is 2^-9.
//   int8: blocks with one scale each (comm/quantized.hpp), summed in fp32; the error is 0.6 % rms for normally distributed
//         differences. The error of what a rank sends to each owner, and of the mean that an owner sends to all, is kept as
//         a residual and added to the next transfer (error feedback: Seide et al. 2014). So after 32 means parameters are
//         off by as much as after one; in bf16 by 5 to 9 times as much, in int8 without feedback by 5 times
//         (tests/sync/means_test.cpp).
//
// With sync.average_overlap (delayed averaging) the nodes train on while a mean is in flight, and apply it some steps later:
// x = mean + (x - sent), where x has made local steps since it was sent (CoCoD-SGD: Shen et al. 2019, arXiv 1906.12043,
// algorithm 1). So no part of a local step is lost, and applying a mean does not change the mean over the nodes. Overlap
// Local-SGD (Wang et al. 2020, arXiv 2002.09539) and Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512) hide the
// same exchange, but move x only a part of the way to the mean, and lose that part of the steps made meanwhile. It takes
// another copy of the shards, and in fp32 two.
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

/// How means are sent.
struct Sending {
  DType type = DType::f32;                        ///< bf16: differences are sent in bf16
  std::optional<kernels::QuantFormat> quantized;  ///< differences are sent in this format; type is f32 then
  bool overlap = false;
};
/// quant_block: zero.quant_block.
Sending sending_of(const SyncOptions& options, std::size_t quant_block);

class Average {
 public:
  /// sub_shards must outlive this. On one node nothing is sent, and no memory is taken.
  Average(const SubShards& sub_shards, const NodeGroups& groups, const Sending& sending, Memory& memory);
  Average(const Average&) = delete;
  Average& operator=(const Average&) = delete;

  /// Collective over all nodes, before the first mean: sets the reference to the mean of the nodes' parameters, and leaves
  /// these as they are.
  void set_reference();

  /// Applied to the mean of each unit's sub-shard, on the rank that computes it, before the mean is sent to the others.
  /// Called while communication progresses: it must not communicate.
  using Update = std::function<void(std::size_t unit, Range sub_shard, Span<float> mean)>;
  /// Collective over all nodes: starts to compute the mean of this rank's shards as they are now, and to update it. With
  /// overlap the shards may change meanwhile; without it apply_mean() must follow at once.
  void start(Update update = {});
  /// Waits for the mean in flight, if there is one. The shards stay as they are.
  void wait_for_mean();
  /// Waits for the mean in flight, if there is one: this rank's shards become the mean, plus their changes since start().
  void apply_mean();
  bool in_flight() const { return in_flight_; }
  /// Collective over all nodes. Replaces this rank's shards by their mean over the nodes, which is always exchanged in fp32.
  void run_exactly();

  /// Collective in the node: all-gathers the masters that every rank of the node keeps whole (stage 0) from the shards.
  void gather_in_node();

  bool in_differences() const { return !reference_.empty(); }
  /// Slices of this rank's shards for checkpoints. They must not be in use by a mean in flight: call wait_for_mean() first.
  /// The reference, /common/NAME; none if means are sent in fp32.
  std::vector<NamedSlice> common_slices(const std::vector<model::UnitLayout>& units, const std::vector<Range>& wanted) const;
  /// This node's quantization residuals, /average/lost/NAME.
  std::vector<NamedSlice> lost_slices(const std::vector<model::UnitLayout>& units) const;
  /// The slices of a mean in flight, with overlap: the values that this node sent, /average/sent/NAME; and the mean,
  /// /average/mean/NAME, unless the reference is it.
  std::vector<NamedSlice> sent_slices(const std::vector<model::UnitLayout>& units) const;
  std::vector<NamedSlice> mean_slices(const std::vector<model::UnitLayout>& units, const std::vector<Range>& wanted) const;
  /// Continues with the mean in flight whose sent_slices() and mean_slices() were read from a checkpoint.
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
  std::unique_ptr<comm::Reducer> reducer_;          // sends means in the form of sending_
  std::unique_ptr<comm::Reducer> exact_, in_node_;  // in fp32: over the nodes, within this node
  std::vector<Span<float>> reference_;              // by unit, of this rank's shard; empty if parameters themselves are sent
  std::vector<Span<std::byte>> message_;            // by unit, in sending_.type; empty if the shards themselves are sent
  std::vector<Span<float>> sent_;  // by unit: the shards when the mean in flight was started; empty without overlap
  // Residuals by unit, empty unless quantized. On this rank's sub-shard: the error of the mean that it sends to all; on the
  // rest of its shard: the errors of what it sends to the other owners.
  std::vector<Span<float>> residuals_;
  Span<float> mean_;  // of a unit's sub-shard, if differences are sent in 16 bits
  Span<std::byte> scratch_;
  comm::Request request_;
  bool in_flight_ = false, arrived_ = false;
};

}  // namespace shoal::sync
