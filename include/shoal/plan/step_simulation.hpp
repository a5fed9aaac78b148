// SPDX-License-Identifier: Apache-2.0
// Simulates a training step of zero::Engine with time instead of numbers: which collective starts when, how many are in
// flight, and what waits for them.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "shoal/plan/step_messages.hpp"
#include "shoal/plan/timeline.hpp"

namespace shoal::plan {

/// Seconds of computation in a step on one rank, without communication.
struct Arithmetic {
  double micro_batches_s = 0;  ///< forward and backward passes of all micro-batches of the rank
  double update_s = 0;         ///< norm and optimizer
  double total_s() const { return micro_batches_s + update_s; }
};

class StepSimulation {
 public:
  /// The states are sharded over groups of `sync_group_size` consecutive ranks; all groups do the same. timeline must
  /// outlive this object.
  StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                 const Cluster& cluster, const Arithmetic& arithmetic, Timeline& timeline);

  /// From the first micro-batch to the update. Returns while the all-gather of updated parameters is in flight.
  void step();
  /// Waits for that all-gather.
  void wait_for_parameters();
  /// Starts it again, after nodes have changed the parameters.
  void start_all_gather();

 private:
  /// One entry of the order in which a micro-batch uses units.
  struct Use {
    double fraction = 0;                ///< fraction of a micro-batch's computation
    std::vector<int> units;             ///< used at the same time
    std::vector<int> completed;         ///< units whose gradients it completes
    std::vector<std::size_t> starting;  ///< gathers that start at its beginning (indices into messages_.gathers)
  };

  void plan_uses(const zero::EngineOptions& options, const std::vector<model::UnitLayout>& units);

  void micro_step(bool is_last);
  void start_gather(std::size_t lifetime);
  void finish_gather();
  void acquire(int unit, std::size_t use);
  void wait_for_gradient_memory(int unit);
  void complete(int unit, bool is_last);
  void start_ready_reduces();
  void start_reduce();
  void finish_reduces(std::size_t buckets);
  void finish_all_reduces();
  void gather_gradients();
  void start_next_all_gather();
  void wait_for_gathered(std::size_t buckets);

  Arithmetic arithmetic_;
  Timeline* time_;
  std::vector<zero::ShardLayout> layouts_;
  zero::AccumulationPlan accumulation_;
  bool overlap_;
  std::vector<Use> uses_;
  StepMessages messages_;

  std::vector<bool> hpz_valid_;                                      // by unit: the hpZ group has current parameters
  std::deque<std::pair<std::size_t, Timeline::Pending>> gathering_;  // in flight, with indices into messages_.gathers

  std::vector<bool> complete_;  // by unit: its gradient, in this micro-step
  bool first_gradient_ = false;
  std::deque<Timeline::Pending> reducing_;  // in flight
  // Buckets of this reduction: number of those whose units are complete, and of those that were started and are finished.
  std::size_t reduces_ready_ = 0, reduces_started_ = 0, reduces_finished_ = 0;

  std::deque<Timeline::Pending> all_gathers_;                       // of updated parameters, in flight
  std::size_t all_gathers_started_ = 0, all_gathers_finished_ = 0;  // buckets
};

}  // namespace shoal::plan
