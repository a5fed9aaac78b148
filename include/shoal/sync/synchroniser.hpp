// SPDX-License-Identifier: Apache-2.0
// How nodes that train apart come together: what sync/schedule.hpp says for a step, done to the fp32 master parameters.
// The optimizer's moments stay each node's own: they are neither averaged nor reset.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/sync/average.hpp"
#include "shoal/sync/gradient_sum.hpp"
#include "shoal/sync/outer.hpp"
#include "shoal/sync/push.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::sync {

/// What is to be known of the run around it.
struct SyncContext {
  DType gradients = DType::f32;   ///< their type, where nodes warm up
  std::size_t quant_block = 256;  ///< elements that share a scale where means are sent in int8
  bool shows = false;             ///< swap_in_mean() will be called
};

class Synchroniser {
 public:
  /// states: of ZeRO's group, which is groups.node; they must outlive this.
  Synchroniser(const SyncOptions& options, const SyncContext& run, const std::vector<model::UnitLayout>& units,
               zero::States& states, const NodeGroups& groups, Memory& memory);
  Synchroniser(const Synchroniser&) = delete;
  Synchroniser& operator=(const Synchroniser&) = delete;

  const Schedule& schedule() const { return schedule_; }
  const NodeGroups& groups() const { return groups_; }

  /// Before the first step, or after parameters were loaded without the outer update's state: that starts from them.
  void begin();
  /// While nodes warm up, in every step before its norm: this rank's shards of the gradient become the sum over all nodes.
  void sum_gradients(const GradientSum::Gradient& gradient) { gradients_->run(gradient); }
  /// Whether after() will write to the masters. Then nothing may be published meanwhile, and what is derived from them is to
  /// be refreshed after it.
  bool writes_masters(std::size_t step) const;
  /// All ranks, after the local update of every step `step` (from 1), at the learning rate that the schedule has for it.
  void after(std::size_t step, double learning_rate);
  /// Until what is on its way between nodes is here; taken in it is when its step comes.
  void wait_for_mean() { average_.wait_for_mean(); }

  /// The masters become their mean over the nodes, until restore_own() brings this node's own back; a mean that is under
  /// way is no part of it. Collective; nothing may be published meanwhile, and what is derived from the masters is to be
  /// refreshed after both.
  void swap_in_mean();
  void restore_own();
  /// The same for good.
  void replace_by_mean();

  /// The state besides parameters and moments, for checkpoints: that of all nodes together, every element on one rank; and
  /// each node's own, every element on one rank of the node. Nothing is on its way when they return.
  std::vector<NamedSlice> common_slices();
  std::vector<NamedSlice> node_slices();
  /// The masters, where all nodes have the same, and the moments, where they have: every element on one rank.
  std::vector<NamedSlice> common_parameters() const { return states_->parameter_slices(sub_shards_.sub_shards()); }
  std::vector<NamedSlice> common_moments() const { return states_->moment_slices(sub_shards_.sub_shards()); }
  /// What of the state are parameters in common (sync/average.hpp; none where means are sent in fp32), what quantization
  /// took (none without), what is the outer update's, and what is an exchange's that is under way: for reading back.
  std::vector<NamedSlice> parameters_in_common() const { return average_.common_slices(units_, sub_shards_.shards()); }
  std::vector<NamedSlice> lost_slices() const { return average_.lost_slices(units_); }
  std::vector<NamedSlice> outer_slices() const;
  std::vector<NamedSlice> exchange_slices();
  bool overlaps() const { return push_ != nullptr && overlap_; }
  bool exchange_under_way() const { return push_ != nullptr && push_->under_way(); }
  /// exchange_slices() were read back.
  void restore_exchange() { push_->restore(); }
  /// The same of a mean that is under way.
  std::vector<NamedSlice> mean_slices() const;
  bool mean_under_way() const { return average_.under_way(); }
  void restore_mean() { average_.restore(); }

 private:
  void act(std::size_t step, double learning_rate);
  void start(const Actions& actions, double learning_rate);

  std::vector<model::UnitLayout> units_;
  zero::States* states_;
  NodeGroups groups_;
  Schedule schedule_;
  bool overlap_;
  SubShards sub_shards_;
  std::optional<Outer> outer_;
  Average average_;  // ends before the outer update, which its exchange makes on the way
  std::unique_ptr<Push> push_;
  std::optional<GradientSum> gradients_;
  std::vector<Span<float>> own_;  // by unit: shards while the average is shown
};

}  // namespace shoal::sync
