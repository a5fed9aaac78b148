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

class Rehearsal {
 public:
  /// Groups of `in_step` neighbours share out the states, each like the others. All must outlive this.
  Rehearsal(const zero::EngineOptions& options, int in_step, const Collectives& collectives, const Cluster& cluster,
            const Arithmetic& arithmetic, Timeline& timeline);

  /// From the first micro-batch to the update, which is being published when it returns.
  void step();
  /// Waits until it is published, and publishes anew.
  void settle();
  void publish();

 private:
  using Costs = std::shared_ptr<const Cost>;

  struct Visit {
    double share = 0;  ///< of a micro-batch's arithmetic
    std::vector<int> units, completed;
    std::vector<std::size_t> starting;  ///< residences
  };

  void check_effort(std::size_t events_of_a_turn) const;
  void plan_visits();
  void plan_gathers();
  void plan_messages();
  Costs cost_of(bool reducing, const zero::Message& message, DType dtype);
  Costs gather_cost(std::size_t unit, int ranks, bool quantized);
  Costs cost_of_tree(bool reducing, const Grouping& grouping, const std::vector<std::size_t>& bytes);

  void turn(bool reduces);
  void start_gather(std::size_t residence);
  void acquire(int unit, std::size_t visit);
  void finish_gather();
  void make_room(int unit);
  void complete(int unit, bool reduces);
  void start_reducing();
  void finish_reducing(std::size_t messages);
  void share_gradients();
  void await_published(std::size_t messages);

  const zero::EngineOptions* options_;
  int ranks_;  // in step
  const Collectives* collectives_;
  const Cluster* cluster_;
  Arithmetic arithmetic_;
  Timeline* time_;
  std::vector<model::UnitLayout> units_;
  std::vector<zero::Holding> holdings_;
  zero::Turns turns_;
  Grouping group_;
  bool overlap_;

  std::vector<Visit> visits_;
  zero::GatherPlan gathers_;
  std::vector<Costs> gather_far_, gather_near_;                      // by unit; null where it is not gathered so
  std::vector<bool> fresh_;                                          // by unit: the second partition holds it
  std::deque<std::pair<std::size_t, Timeline::Pending>> gathering_;  // residences

  std::vector<zero::Message> reduced_, published_messages_;
  std::vector<Costs> reduce_, gather_sums_, publish_;  // by message
  std::vector<std::size_t> messages_before_;           // by unit: complete before its gradient is written
  std::vector<std::size_t> published_with_;            // by unit: messages that bring it
  std::vector<bool> complete_;
  std::deque<Timeline::Pending> reducing_, publishing_;
  std::size_t started_ = 0, finished_ = 0, publish_started_ = 0, published_ = 0;
  bool first_gradient_ = false;
  Cost small_;
  std::map<std::pair<std::vector<std::size_t>, std::pair<bool, std::size_t>>, Costs> known_;
};

}  // namespace shoal::plan
