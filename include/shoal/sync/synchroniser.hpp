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
#include "shoal/sync/checkpoint.hpp"
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

  const SyncSchedule& schedule() const { return schedule_; }
  const NodeGroups& groups() const { return groups_; }

  /// Before the first step, or after parameters were loaded without the outer update's state: that starts from them.
  void start_from_masters();
  /// While nodes warm up, in every step before its norm: this rank's shards of the gradient become the sum over all nodes.
  void sum_gradients(const GradientSum::Gradient& gradient) { gradients_->run(gradient); }
  /// Whether after_step() will write to the masters. Then nothing may be published meanwhile, and what is derived from them
  /// is to be refreshed after it.
  bool writes_masters(std::size_t step) const;
  /// All ranks, after the local update of every step `step` (from 1), at the learning rate that the schedule has for it.
  void after_step(std::size_t step, double learning_rate);
  /// Until what is on its way between nodes is here; taken in it is when its step comes.
  void wait_for_mean() { average_.wait_for_mean(); }

  /// The masters become their mean over the nodes, until restore_own() brings this node's own back; a mean that is under
  /// way is no part of it. Collective; nothing may be published meanwhile, and what is derived from the masters is to be
  /// refreshed after both.
  void swap_in_mean();
  void restore_own();
  /// The same for good.
  void replace_by_mean();

  /// What a checkpoint after `steps` steps is to hold of parameters, moments and the synchronization's own state. Waits for
  /// what is in flight between nodes.
  SyncState state(std::size_t steps);
  /// Continues from a checkpoint, whose parameters and moments are in the states already. `read` is called once at most, on
  /// all ranks. Returns lines for the log. Collective.
  std::vector<std::string> restore(const SyncCheckpoint& from, const ReadSlices& read);
  /// The masters, if all nodes have the same: every element on one rank.
  std::vector<NamedSlice> common_parameters() const { return states_->parameter_slices(sub_shards_.sub_shards()); }
  bool mean_in_flight() const { return average_.in_flight(); }

 private:
  void act(std::size_t step, double learning_rate);
  void start(const Actions& actions, double learning_rate);
  std::vector<NamedSlice> outer_slices() const;

  std::vector<model::UnitLayout> units_;
  zero::States* states_;
  NodeGroups groups_;
  SyncSchedule schedule_;
  bool overlap_;
  SubShards sub_shards_;
  std::optional<Outer> outer_;
  Average average_;  // ends before the outer update, which its exchange makes on the way
  std::unique_ptr<Push> push_;
  std::optional<GradientSum> gradients_;
  std::vector<Span<float>> own_;  // by unit: shards while the average is shown
};

}  // namespace shoal::sync
