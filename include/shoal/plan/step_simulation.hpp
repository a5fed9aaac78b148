// SPDX-License-Identifier: Apache-2.0
// A training step of a rank without pipelines, in time.
#pragma once

#include "shoal/plan/timed_execution.hpp"

namespace shoal::plan {

/// How many times as fast a rank computes as it does while all ranks compute. 1 if it has processors of its own; more if
/// others use them, too.
struct Speedup {
  double node_alone = 1;  ///< while the ranks of no other node compute
  double rank_alone = 1;  ///< while no other rank computes
};

/// Seconds of computation in a step on one rank, without communication.
struct Arithmetic {
  double micro_batches_s = 0;  ///< forward and backward passes of all micro-batches of the rank, while all ranks compute
  double update_s = 0;         ///< norm and optimizer, while all ranks do that
  Speedup speedup = {};        ///< for ranks that do not compute at the same time: those of different stages of a pipeline
  double total_s() const { return micro_batches_s + update_s; }
};

class StepSimulation {
 public:
  /// The states are sharded over groups of `sync_group_size` consecutive ranks; all groups do the same. options: the
  /// engine's of a rank that computes the model as one part. clock must outlive this object.
  StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                 const Cluster& cluster, const Arithmetic& arithmetic, RankClock& clock);

  /// From the first micro-batch to the update. Returns while the all-gather of updated parameters is in flight.
  void step();
  /// Waits for that all-gather.
  void wait_for_parameters() { execute(schedule_.wait_for_parameters()); }
  /// Starts it again, after nodes have changed the parameters.
  void start_all_gather() { execute(schedule_.publish()); }

 private:
  void execute(const zero::StepItems& items) { execution_.execute(items, use_s_, update_s_, *time_); }

  RankClock* time_;
  zero::StepSchedule schedule_;
  TimedExecution execution_;
  double update_s_;
  UseSeconds use_s_;
};

}  // namespace shoal::plan
