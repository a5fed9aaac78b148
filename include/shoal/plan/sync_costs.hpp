// SPDX-License-Identifier: Apache-2.0
// The messages that nodes which train locally send each other when they synchronize (sync/synchroniser.hpp), and those that
// the ranks of a node then exchange.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shoal/plan/step_simulation.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::plan {

/// All steps of a period after which the nodes do the same.
struct SyncEvent {
  sync::Actions actions;
  int hop = 0;            ///< distance to the neighbour nodes of a push
  std::size_t times = 0;  ///< number of such steps in a period
  std::size_t steps = 1;  ///< steps that the event lasts; with a delayed average, also those that run while it is in flight
  std::vector<sync::SyncCall> calls = {};       ///< after its first step
  std::vector<sync::SyncCall> last_calls = {};  ///< after its last step, if it has several
  bool reports = false;                         ///< nodes exchange reports at its end
};

/// A period of steps, after which everything repeats, and its events. If nodes reduce gradients at every step, it is one
/// step with one event, which has no actions.
struct Period {
  std::size_t steps = 1;
  std::vector<SyncEvent> events;  ///< steps after which nodes do nothing are an event too
};
/// The events of a period in their order. Those of the same kind are separate, and each happens once.
std::vector<SyncEvent> events_in_order(const sync::SyncOptions& options, int nodes);
/// The period that repeats once sync.warmup_steps are over.
Period period_of(const sync::SyncOptions& options, int nodes);

class SyncCosts {
 public:
  /// collectives, simulation and clock must outlive this object.
  SyncCosts(const sync::SyncOptions& options, const zero::EngineOptions& engine, int sync_group_size, const Cluster& cluster,
            const CollectiveCosts& collectives, StepSimulation& simulation, RankClock& clock);

  /// Simulates the event's first step, what the nodes do after it, and the event's further steps.
  void run(const SyncEvent& event);
  /// Waits for everything in flight.
  void finish();

 private:
  void execute(const std::vector<sync::SyncCall>& calls, int hop);
  void execute(sync::SyncCall call, int hop);
  void prepare_averages(const sync::SyncOptions& options, const zero::EngineOptions& engine, int nodes);
  void average();
  void start_average();
  void finish_average();
  void push(int hop);

  sync::SyncSchedule schedule_;
  bool push_overlaps_;
  int sync_group_size_, ranks_;
  const CollectiveCosts* collectives_;
  StepSimulation* simulation_;
  RankClock* time_;
  std::vector<std::size_t> shard_bytes_;  // of each rank of the run, in fp32
  std::vector<Cost> reduce_, gather_;     // of an average: one entry for all units, or one per unit
  Cost gather_in_node_, exchange_reports_;
  bool gathers_in_node_ = false;
  // In flight since an earlier event.
  std::optional<RankClock::Pending> pushing_;
  std::vector<RankClock::Pending> averaging_;  // the operations of a mean
};

}  // namespace shoal::plan
