// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/recording.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::plan {

namespace {

using Action = RecordedAction;

class Recorder final : public TimelineListener {
 public:
  void computes(double seconds) override {
    if (!(seconds > 0)) return;
    auto& actions = recording_.actions;
    if (actions.empty() || actions.back().kind != Action::Kind::compute) actions.push_back({});
    actions.back().seconds += seconds;
  }
  void starts(std::size_t number, OperationKind kind, const Cost& cost, std::size_t after) override {
    require_input(static_cast<bool>(cost.steps_of),
                  "--network: the network was measured with nccl; the exchanges of a simulation are those over MPI");
    recording_.actions.push_back({Action::Kind::start, 0, number});
    recording_.operations.push_back({kind, cost.control, cost.steps_of, 0});
    after_.push_back(after);
  }
  void waits(std::size_t number) override { recording_.actions.push_back({Action::Kind::wait, 0, number}); }

  std::size_t actions() const { return recording_.actions.size(); }

  /// Gives each operation the lowest lane on which nothing is in flight, or that of the operation that it follows.
  Recording with_lanes() {
    std::vector<std::size_t> in_flight = {0};  // by lane
    std::vector<Action> actions;
    for (std::size_t i = 0; i < recording_.actions.size(); ++i) {
      const Action& action = recording_.actions[i];
      if (action.kind == Action::Kind::wait) --in_flight[lane_of(action.operation)];
      if (action.kind == Action::Kind::start) {
        if (awaited_at_once(i)) {
          actions.push_back(action);
          ++i;  // the wait
          continue;
        }
        int& lane = recording_.operations[action.operation].lane;
        if (const std::size_t before = after_[action.operation]; before != action.operation) {
          lane = recording_.operations[before].lane;
        } else {
          const auto free = std::find(in_flight.begin() + 1, in_flight.end(), 0U);
          lane = static_cast<int>(free - in_flight.begin());
          if (free == in_flight.end()) in_flight.push_back(0);
        }
        ++in_flight[lane_of(action.operation)];
      }
      actions.push_back(action);
    }
    recording_.actions = std::move(actions);
    recording_.lanes = static_cast<int>(in_flight.size()) - 1;
    return std::move(recording_);
  }

 private:
  std::size_t lane_of(std::size_t operation) const {
    return static_cast<std::size_t>(recording_.operations[operation].lane);
  }
  bool awaited_at_once(std::size_t start) const {
    const Action& action = recording_.actions[start];
    if (start + 1 == recording_.actions.size() || after_[action.operation] != action.operation) return false;
    const Action& next = recording_.actions[start + 1];
    return next.kind == Action::Kind::wait && next.operation == action.operation;
  }

  Recording recording_;
  std::vector<std::size_t> after_;  // by operation: the one that it follows, or itself
};

}  // namespace

Recording record(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                 const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic,
                 const std::vector<SyncEvent>& events) {
  Recorder recorder;
  const CollectiveCosts collectives(network, cluster);
  Timeline timeline(cluster.ranks());
  timeline.set_listener(recorder);
  StepSimulation simulation(options, sync_group_size, collectives, cluster, arithmetic, timeline);
  SyncCosts sync_costs(sync, options, sync_group_size, cluster, collectives, simulation, timeline);
  for (const SyncEvent& event : events) sync_costs.run(event);
  const std::size_t actions = recorder.actions();
  sync_costs.finish();
  const bool settled = recorder.actions() == actions;
  Recording recording = recorder.with_lanes();
  recording.settled = settled;
  return recording;
}

}  // namespace shoal::plan
