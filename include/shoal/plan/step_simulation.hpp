// SPDX-License-Identifier: Apache-2.0
// Simulates a training step of zero::Engine with time instead of numbers: which collective starts when, how many are in
// flight, and what waits for them. The functions that a run calls decide what is sent and in which messages.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "shoal/plan/timeline.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// Seconds of computation in a step on one rank, without communication.
struct Arithmetic {
  double micro_batches_s = 0;  ///< forward and backward passes of all micro-batches of the rank
  double update_s = 0;         ///< norm and optimizer
  double total_s() const { return micro_batches_s + update_s; }
};

class StepSimulation {
 public:
  /// The states are sharded over groups of `sync_group_size` consecutive ranks; all groups do the same. options,
  /// collectives, cluster and timeline must outlive this object.
  StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                 const Cluster& cluster, const Arithmetic& arithmetic, Timeline& timeline);

  /// From the first micro-batch to the update. Returns while the all-gather of updated parameters is in flight.
  void step();
  /// Waits for that all-gather.
  void settle();
  /// Starts it again, after nodes have changed the parameters.
  void start_all_gather();

 private:
  using Costs = std::shared_ptr<const Cost>;

  struct Use {
    double share = 0;  ///< fraction of a micro-batch's computation
    std::vector<int> units, completed;
    std::vector<std::size_t> starting;  ///< gathers that start at its beginning (indices into gathers_)
  };

  void check_effort(std::size_t events_of_a_micro_step) const;
  void plan_visits();
  void plan_gathers();
  void plan_buckets();
  Costs cost_of(comm::TreeDirection direction, const zero::Bucket& bucket, DType dtype);
  Costs gather_cost(std::size_t unit, int ranks, bool quantized);
  Costs cost_of_tree(comm::TreeDirection direction, const Grouping& grouping, const std::vector<std::size_t>& bytes);

  void micro_step(bool reduces);
  void start_gather(std::size_t lifetime);
  void acquire(int unit, std::size_t visit);
  void finish_gather();
  void make_room(int unit);
  void complete(int unit, bool reduces);
  void start_reducing();
  void finish_reducing(std::size_t buckets);
  void gather_gradients();
  void wait_for_gathered(std::size_t buckets);

  const zero::EngineOptions* options_;
  int ranks_;  // that reduce gradients with each other at every step
  const CollectiveCosts* collectives_;
  const Cluster* cluster_;
  Arithmetic arithmetic_;
  Timeline* time_;
  std::vector<model::UnitLayout> units_;
  std::vector<zero::ShardLayout> layouts_;
  zero::AccumulationPlan accumulation_;
  Grouping group_;
  bool overlap_;

  std::vector<Use> visits_;
  zero::GatherPlan gathers_;
  // By unit: a gather over all ranks, and one within the hpZ group; null if the unit has none.
  std::vector<Costs> gather_far_, gather_near_;
  std::vector<bool> fresh_;                                          // by unit: the hpZ partition is up to date
  std::deque<std::pair<std::size_t, Timeline::Pending>> gathering_;  // in flight, with their indices into gathers_

  std::vector<zero::Bucket> reduced_, gathered_buckets_;
  std::vector<Costs> reduce_, gather_sums_, publish_;  // by bucket
  std::vector<std::size_t> buckets_before_;            // by unit: buckets to finish before its gradient is written
  std::vector<std::size_t> published_with_;            // by unit: buckets that must have arrived before it is used
  std::vector<bool> complete_;
  std::deque<Timeline::Pending> reducing_, publishing_;
  std::size_t started_ = 0, finished_ = 0, publish_started_ = 0, gathered_ = 0;
  bool first_gradient_ = false;
  Cost small_;
  std::map<std::pair<std::vector<std::size_t>, std::pair<comm::TreeDirection, std::size_t>>, Costs> known_;
};

}  // namespace shoal::plan
