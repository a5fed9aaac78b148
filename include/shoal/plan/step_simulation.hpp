// SPDX-License-Identifier: Apache-2.0
// A step of training as zero::Engine makes it, with time instead of numbers: which collective starts when, how many are
// under way, and what waits for them. What is sent, and in which messages, comes from the functions that a run calls.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "shoal/plan/timeline.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// Seconds of a step on one rank, by itself.
struct Arithmetic {
  double micro_batches_s = 0;  ///< forward and backward of all of its micro-batches
  double update_s = 0;         ///< norm and optimizer
  double total_s() const { return micro_batches_s + update_s; }
};

class StepSimulation {
 public:
  /// Groups of `sync_group_size` neighbours share out the states, each like the others. All must outlive this.
  StepSimulation(const zero::EngineOptions& options, int sync_group_size, const Collectives& collectives,
                 const Cluster& cluster, const Arithmetic& arithmetic, Timeline& timeline);

  /// From the first micro-batch to the update, which is being published when it returns.
  void step();
  /// Waits until it is published, and publishes anew.
  void settle();
  void start_all_gather();

 private:
  using Costs = std::shared_ptr<const Cost>;

  struct Use {
    double share = 0;  ///< of a micro-batch's arithmetic
    std::vector<int> units, completed;
    std::vector<std::size_t> starting;  ///< gather_lifetimes
  };

  void check_effort(std::size_t events_of_a_micro_step) const;
  void plan_visits();
  void plan_gathers();
  void plan_buckets();
  Costs cost_of(bool reducing, const zero::Bucket& bucket, DType dtype);
  Costs gather_cost(std::size_t unit, int ranks, bool quantized);
  Costs cost_of_tree(bool reducing, const Grouping& grouping, const std::vector<std::size_t>& bytes);

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
  int ranks_;  // in step
  const Collectives* collectives_;
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
  std::vector<Costs> gather_far_, gather_near_;                      // by unit; null where it is not gathered so
  std::vector<bool> fresh_;                                          // by unit: the second partition holds it
  std::deque<std::pair<std::size_t, Timeline::Pending>> gathering_;  // gather_lifetimes

  std::vector<zero::Bucket> reduced_, gathered_buckets_;
  std::vector<Costs> reduce_, gather_sums_, publish_;  // by message
  std::vector<std::size_t> buckets_before_;            // by unit: complete before its gradient is written
  std::vector<std::size_t> published_with_;            // by unit: messages that bring it
  std::vector<bool> complete_;
  std::deque<Timeline::Pending> reducing_, publishing_;
  std::size_t started_ = 0, finished_ = 0, publish_started_ = 0, gathered_ = 0;
  bool first_gradient_ = false;
  Cost small_;
  std::map<std::pair<std::vector<std::size_t>, std::pair<bool, std::size_t>>, Costs> known_;
};

}  // namespace shoal::plan
