// SPDX-License-Identifier: Apache-2.0
// What nodes that train apart send each other when they come together (sync/synchroniser.hpp), and what follows from it in
// the node.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/plan/step_simulation.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::plan {

/// All steps after which nodes do the same.
struct SyncEvent {
  sync::Actions actions;
  int hop = 0;            ///< of a push
  std::size_t times = 0;  ///< in a period
  std::size_t steps = 1;  ///< that it lasts: those which hide a mean, until it is taken in, belong to it
};

/// Of how many steps a period consists, and what comes after them; a single step without events where nodes stay in step.
struct Period {
  std::size_t steps = 1;
  std::vector<SyncEvent> events;  ///< steps without any action among them
};
/// Once nodes are warm (sync.warmup_steps).
Period period_of(const sync::SyncOptions& options, int nodes);

class SyncCosts {
 public:
  /// All must outlive this.
  SyncCosts(const sync::SyncOptions& options, const zero::EngineOptions& engine, int sync_group_size, const Cluster& cluster,
            const Collectives& collectives, StepSimulation& simulation, Timeline& timeline);

  /// The event's first step, and what comes after it; its further steps.
  void run(const SyncEvent& event);

 private:
  void after(const SyncEvent& event);
  void prepare_means(const sync::SyncOptions& options, const zero::EngineOptions& engine, int nodes);
  void average();
  void take_in(const SyncEvent& event);
  void push(int hop);

  sync::Schedule schedule_;
  bool pushes_late_;
  int sync_group_size_, ranks_;
  const Collectives* collectives_;
  StepSimulation* rehearsal_;
  Timeline* time_;
  std::vector<std::size_t> shard_bytes_;  // fp32, by rank of the run
  std::vector<Cost> reduce_, gather_;     // of a mean: all at once, or by unit
  Cost in_node_, reports_;
  bool gathers_in_node_ = false;
  std::optional<Timeline::Pending> pushing_;
};

}  // namespace shoal::plan
