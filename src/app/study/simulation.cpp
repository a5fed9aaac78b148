// SPDX-License-Identifier: Apache-2.0
#include "app/study/simulation.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/plan/plan_trace.hpp"
#include "app/study/json.hpp"
#include "app/support/own_results.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double longest_replay_s = 86'400;

struct Simulated {
  double step_s = 0, replay_s = 0;
  int processes = 0;
  std::uint64_t trace_bytes = 0;
};

class Simulation {
 public:
  Simulation(const TimeModel& times, plan::Platform platform, fs::path directory)
      : times_(times), platform_(platform), directory_(std::move(directory)) {}

  /// Simulates each kind of a period's events. The cost of one is the time of two such events less the time of one.
  Simulated of(const StudyPoint& point) const {
    const plan::Cluster cluster = {point.grid.nodes, point.grid.ranks_per_node};
    const SimulatedRun run = simulated_run(point.options, cluster, times_, point.limit);
    const plan::Period period = plan::period_of(run.sync, run.cluster.ranks() / run.sync_group_size);
    const auto begin = Clock::now();
    Simulated result;
    for (const plan::SyncEvent& event : period.events) {
      bool settled = false;
      double seconds = replayed(run, {event}, result, settled);
      if (!settled) seconds = replayed(run, {event, event}, result, settled) - seconds;
      result.step_s += seconds * static_cast<double>(event.times) / static_cast<double>(period.steps);
    }
    result.replay_s = std::chrono::duration<double>(Clock::now() - begin).count();
    return result;
  }

 private:
  double replayed(const SimulatedRun& run, const std::vector<plan::SyncEvent>& events, Simulated& result,
                  bool& settled) const {
    require(fs::create_directory(directory_), directory_.string(),
            ": exists; remove it");  // what is removed below is our own
    const WrittenReplay written = write_replay(directory_, run, times_, platform_, events);
    settled = written.settled;
    result.processes = std::max(result.processes, written.processes);
    result.trace_bytes = std::max(result.trace_bytes, written.bytes);
    const double seconds = replay(directory_, longest_replay_s);
    fs::remove_all(directory_);
    return seconds;
  }

  const TimeModel& times_;
  plan::Platform platform_;
  fs::path directory_;
};

Json json_of(const StudyPoint& point, const Simulated& simulated) {
  Json json = json_of(point);
  json.update({{"tokens_per_step", point.tokens()},
               {"planned_step_s", point.step.total_s()},
               {"step_s", simulated.step_s},
               {"tokens_per_s", static_cast<double>(point.tokens()) / simulated.step_s},
               {"processes", simulated.processes},
               {"trace_bytes", simulated.trace_bytes},
               {"replay_s", simulated.replay_s}});
  return json;
}

}  // namespace

std::vector<config::CommandSpec::Own> simulation_options() {
  return {{"simulate", false, "", config::any(),
           "predict every point by a replay with SimGrid, and run none; needs study.network"},
          {"platform", std::string(name_of(plan::Platform::two_level)), "", config::one_of(names<plan::Platform>()),
           "with --simulate: the network between the nodes"}};
}

bool simulates(const config::Invocation& study) {
  if (study.own<bool>("simulate")) {
    require_input(!study.own<bool>("dry-run"), "--simulate runs nothing, so --dry-run has no effect; allowed: one of them");
    return true;
  }
  require_input(study.own_named<plan::Platform>("platform") == plan::Platform::two_level, "--platform needs --simulate");
  return false;
}

void simulate_study(const config::Invocation& study, const std::vector<StudyPoint>& points,
                    const std::optional<TimeModel>& times) {
  require_input(times.has_value(), "--simulate needs study.network, a result of `shoal bench comm --output FILE`");
  for (const StudyPoint& point : points) require_simulated(point.options);
  const fs::path directory = study.options.output.dir, file = directory / "simulation.json";
  const auto platform = study.own_named<plan::Platform>("platform");
  io::make_writable("output.dir = " + directory.string(), directory);
  io::require_target("output.dir: ", file, own_simulation(), true);
  Json json = {{"format", "shoal-simulation"},
               {"deck", study.deck},
               {"network", times->source},
               {"platform", name_of(platform)},
               {"points", Json::array()}};
  std::printf(
      "# Simulated steps, on a network of the kind %s as %s describes it\n"
      "#ranks  nodes  strategy                    planned s  simulated s   tokens/s  replayed in s\n",
      name_of(platform), times->source.c_str());
  for (const StudyPoint& point : points) {
    if (point.repeat > 1) continue;
    const Simulated simulated = Simulation(*times, platform, directory / text(".replay.", ::getpid())).of(point);
    std::printf("%6d  %5d  %-26s  %9.4f  %11.4f  %9.0f  %13.1f\n", point.grid.ranks(), point.grid.nodes,
                point.strategy.c_str(), point.step.total_s(), simulated.step_s,
                static_cast<double>(point.tokens()) / simulated.step_s, simulated.replay_s);
    std::fflush(stdout);
    json["points"].push_back(json_of(point, simulated));
    io::write_text_file(file, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
}

}  // namespace shoal::app
