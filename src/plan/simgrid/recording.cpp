// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/recording.hpp"

#include "plan/simgrid/recorder.hpp"

namespace shoal::plan {

Recording record(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                 const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic,
                 const std::vector<SyncEvent>& events) {
  Recorder recorder;
  const CollectiveCosts collectives(network, cluster);
  RankClock clock(cluster.ranks());
  clock.set_listener(recorder);
  StepSimulation simulation(options, sync_group_size, collectives, cluster, arithmetic, clock);
  SyncCosts sync_costs(sync, options, sync_group_size, cluster, collectives, simulation, clock);
  for (const SyncEvent& event : events) sync_costs.run(event);
  const std::size_t actions = recorder.actions();
  sync_costs.finish();
  Recording recording;
  recording.settled = recorder.actions() == actions;
  recording.actions.push_back(recorder.with_lanes());
  recording.operations = recorder.operations();
  recording.lanes = recorder.lanes();
  return recording;
}

}  // namespace shoal::plan
