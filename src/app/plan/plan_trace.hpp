// SPDX-License-Identifier: Apache-2.0
// Steps of a deck as a trace that SimGrid replays, in a directory with all that a replay needs:
//   trace.txt       what every rank does (plan/replay_trace.hpp)
//   trace.list      names trace.txt, as SimGrid's -replay wants it
//   platform.xml    nodes and network (plan/platform.hpp)
//   hosts.txt       the node of every process
//   replay.sh       replays it, with SimGrid's smpirun
//   about.json      what was written. It is written last
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "app/plan/plan_time.hpp"
#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/platform.hpp"
#include "shoal/plan/sync_costs.hpp"

namespace shoal::app {

/// The run to be simulated: what its steps are recorded from.
struct SimulatedRun {
  zero::EngineOptions engine;
  sync::SyncOptions sync;
  int sync_group_size = 1;
  plan::Cluster cluster;
  plan::Arithmetic arithmetic;
  std::size_t tokens = 0;                      ///< of a step
  std::optional<plan::PipelinePlan> pipeline;  ///< of a run with pipelines
};
/// bad_input() for what a simulation does not know: the exchanges of an MPI library's own collectives.
void require_simulated(const config::Options& options);
/// options: resolved. limit: bytes that a rank may take, if there is one (plan_inputs()).
SimulatedRun simulated_run(const config::Options& options, const plan::Cluster& cluster, const TimeModel& model,
                           const std::optional<std::size_t>& limit);

struct WrittenReplay {
  std::size_t steps = 0;
  int processes = 0;        ///< ranks and their lanes
  std::uint64_t bytes = 0;  ///< of trace.txt
  bool settled = false;     ///< nothing is in flight at the end: repeated steps take as long as the first
};
/// Refuses (bad_input) traces of more than replay_line_limit lines. The directory must exist.
inline constexpr double replay_line_limit = 2e8;
WrittenReplay write_replay(const std::filesystem::path& directory, const SimulatedRun& run, const TimeModel& model,
                           plan::Platform platform, const std::vector<plan::SyncEvent>& events);

/// Returns the simulated seconds of a replay. fail() if SimGrid is not installed, or if the replay fails.
double replay(const std::filesystem::path& directory, double most_seconds);

/// `shoal plan --trace-out`: the command's options for it, and what it does. trace_out() returns false without --trace-out.
/// limit: as above.
std::vector<config::CommandSpec::Own> trace_out_options();
bool trace_out(const config::Invocation& invocation, const std::optional<std::size_t>& limit);

}  // namespace shoal::app
