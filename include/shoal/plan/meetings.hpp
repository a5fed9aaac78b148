// SPDX-License-Identifier: Apache-2.0
// What nodes that train apart send each other when they come together (sync/synchroniser.hpp), and what follows from it in
// the node.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/plan/rehearsal.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::plan {

/// All steps after which nodes do the same.
struct Occasion {
  sync::Actions actions;
  int hop = 0;            ///< of a push
  std::size_t times = 0;  ///< in a period
  std::size_t steps = 1;  ///< that it lasts: those which hide a mean, until it is taken in, belong to it
};

/// Of how many steps a period consists, and what comes after them; a single step without occasions where nodes stay in step.
struct Period {
  std::size_t steps = 1;
  std::vector<Occasion> occasions;  ///< steps without any action among them
};
/// Once nodes are warm (sync.warmup_steps).
Period period_of(const sync::SyncOptions& options, int nodes);

class Meetings {
 public:
  /// All must outlive this.
  Meetings(const sync::SyncOptions& options, const zero::EngineOptions& engine, int in_step, const Cluster& cluster,
           const Collectives& collectives, Rehearsal& rehearsal, Timeline& timeline);

  /// The occasion's first step, and what comes after it; its further steps.
  void run(const Occasion& occasion);

 private:
  void after(const Occasion& occasion);
  void prepare_means(const sync::SyncOptions& options, const zero::EngineOptions& engine, int nodes);
  void average();
  void take_in(const Occasion& occasion);
  void push(int hop);

  sync::Schedule schedule_;
  bool pushes_late_;
  int in_step_, ranks_;
  const Collectives* collectives_;
  Rehearsal* rehearsal_;
  Timeline* time_;
  std::vector<std::size_t> shard_bytes_;  // fp32, by rank of the run
  std::vector<Cost> reduce_, gather_;     // of a mean: all at once, or by unit
  Cost in_node_, reports_;
  bool gathers_in_node_ = false;
  std::optional<Timeline::Pending> pushing_;
};

}  // namespace shoal::plan
