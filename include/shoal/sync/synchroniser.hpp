// SPDX-License-Identifier: Apache-2.0
// Synchronizes nodes that train locally: applies the actions of sync/schedule.hpp for a step to the fp32 master parameters.
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

/// Information about the run for the synchroniser.
struct SyncContext {
  DType gradients = DType::f32;   ///< the gradients' type, for the warm-up
  std::size_t quant_block = 256;  ///< elements per scale, if means are sent in int8
  bool shows = false;             ///< swap_in_mean() will be called
};

class Synchroniser {
 public:
  /// states: those of the ranks of groups.node, over which ZeRO shards; they must outlive this.
  Synchroniser(const SyncOptions& options, const SyncContext& run, const std::vector<model::UnitLayout>& units,
               zero::States& states, const NodeGroups& groups, Memory& memory);
  Synchroniser(const Synchroniser&) = delete;
  Synchroniser& operator=(const Synchroniser&) = delete;

  const SyncSchedule& schedule() const { return schedule_; }
  const NodeGroups& groups() const { return groups_; }

  /// Collective. Before the first step, or if parameters were loaded without the synchronization's state: the reference and
  /// the outer update start from the masters as they are.
  void start_from_masters();
  /// In every step of the warm-up, before the norm: this rank's shards of the gradient become their sum over all nodes.
  void sum_gradients(const GradientSum::Gradient& gradient) { gradients_->run(gradient); }
  /// Returns true if after_step() will change the masters. Then the caller must call it in Engine::change_masters(): the
  /// all-gather of parameters reads them, and everything that is computed from them must follow.
  bool writes_masters(std::size_t step) const;
  /// On all ranks after the local update of step `step`, counted from 1. learning_rate: the schedule's for this step.
  void after_step(std::size_t step, double learning_rate);
  /// Waits for the mean in flight, if there is one. It is applied later, after the step that the schedule determines.
  void wait_for_mean() { average_.wait_for_mean(); }

  /// Replaces the masters by their mean over the nodes, until restore_own(). A mean in flight is neither used nor applied.
  /// Collective; before and after both the caller does as for after_step().
  void swap_in_mean();
  void restore_own();
  /// Replaces the masters by their mean over the nodes, permanently.
  void replace_by_mean();

  /// Returns the contents of a checkpoint after `steps` steps: parameters, moments and the synchronization's own state.
  /// Waits for the exchanges between nodes that are in flight.
  SyncState state(std::size_t steps);
  /// Continues from a checkpoint, whose parameters and moments are in the states already. `read` is called once at most, on
  /// all ranks. Returns lines for the log. Collective.
  std::vector<std::string> restore(const SyncCheckpoint& from, const ReadSlices& read);
  /// The masters, if all nodes have the same: every element on one rank.
  std::vector<NamedSlice> common_parameters() const { return states_->parameter_slices(sub_shards_.sub_shards()); }
  bool mean_in_flight() const { return average_.in_flight(); }

 private:
  /// start_from_masters() for nodes that may differ: if each makes outer updates by itself, they start from the mean.
  void start_from_mean();
  std::vector<SyncCall> calls_after(std::size_t step) const;
  void execute(SyncCall call, std::size_t step, double learning_rate);
  std::vector<NamedSlice> outer_slices() const;

  std::vector<model::UnitLayout> units_;
  zero::States* states_;
  NodeGroups groups_;
  SyncSchedule schedule_;
  bool overlap_;
  SubShards sub_shards_;
  std::optional<Outer> outer_;
  Average average_;  // declared after outer_, so destroyed before it: its operation may call outer_->update()
  std::unique_ptr<Push> push_;
  std::optional<GradientSum> gradients_;
  std::vector<Span<float>> own_;  // by unit: this node's shards between swap_in_mean() and restore_own()
};

}  // namespace shoal::sync
