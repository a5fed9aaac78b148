// SPDX-License-Identifier: Apache-2.0
#include "app/plan/plan_trace.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/plan/plan_ranks.hpp"
#include "app/setup/open_data.hpp"
#include "app/support/command_output.hpp"
#include "app/support/own_results.hpp"
#include "app/support/shell_words.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/io/target.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/plan/replay_trace.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* about_name = "about.json";

std::string replay_script(int processes) {
  std::string script =
      "#!/bin/sh\n# Replays trace.txt on platform.xml with SimGrid (Debian: libsimgrid-dev).\n"
      "cd \"$(dirname \"$0\")\" || exit 1\n"
      "exec smpirun -no-privatize -np " +
      std::to_string(processes) + " -hostfile hosts.txt -platform platform.xml -replay trace.list";
  for (const std::string& setting : plan::simulator_settings()) script += " \\\n  '" + setting + "'";
  return script + " \"$@\" 2>&1\n";
}

std::size_t steps_of(const std::vector<plan::SyncEvent>& events) {
  std::size_t steps = 0;
  for (const plan::SyncEvent& event : events) steps += event.steps;
  return steps;
}

/// The first `steps` steps; 0: a period. Steps that an event needs in addition are included.
std::vector<plan::SyncEvent> events_of(const SimulatedRun& run, std::size_t steps) {
  std::vector<plan::SyncEvent> period = plan::events_in_order(run.sync, run.cluster.ranks() / run.sync_group_size);
  if (steps == 0) return period;
  std::vector<plan::SyncEvent> events;
  for (std::size_t i = 0, counted = 0; counted < steps; i = (i + 1) % period.size()) {
    events.push_back(period[i]);
    counted += period[i].steps;
  }
  return events;
}

void require_lines(double lines, std::size_t steps, int ranks) {
  require_input(lines <= replay_line_limit, "a trace of ", counted(steps, "step"), " on ", ranks, " ranks has ",
                static_cast<std::uint64_t>(lines / 1e6), " million lines; allowed: up to ",
                static_cast<std::uint64_t>(replay_line_limit / 1e6), " million: fewer ranks, micro-batches or --steps");
}

/// Of a step: each action computes, and starts and awaits a message or more, which are 6 lines or more. Known before
/// anything is recorded.
double least_lines(const plan::PipelinePlan& plan, int ranks) {
  double actions = 0;
  for (const auto& list : plan.lists) actions += static_cast<double>(list.size());
  return 6 * actions * ranks / plan.shape.stages;
}

void write_trace(const fs::path& file, const plan::Recording& recording, int ranks, WrittenReplay& written) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  require(out.good(), file.string(), ": cannot be written");
  written.bytes = plan::write_replay_trace(recording, ranks, out);
  out.close();
  require(!out.fail(), file.string(), ": cannot be written; is the disk full?");
}

}  // namespace

void require_simulated(const config::Options& options) {
  require_input(options.comm.collectives == comm::Collectives::reproducible,
                "comm.collectives = ", name_of(options.comm.collectives),
                ": the exchanges of a library's collectives are not known; allowed in a simulation: ",
                name_of(comm::Collectives::reproducible));
}

SimulatedRun simulated_run(const config::Options& options, const plan::Cluster& cluster, const TimeModel& model,
                           const std::optional<std::size_t>& limit) {
  const PlanInputs inputs = plan_inputs(options, cluster.ranks(), cluster.ranks_per_node, limit);
  SimulatedRun run{inputs.engine, options.sync, inputs.sync_group_size, cluster, {}, 0, {}};
  run.tokens = options.batch.global * options.model.block_size;
  if (options.pipeline.size == 1) {
    run.arithmetic = model.arithmetic(run.engine, run.sync_group_size, options.train.dtype);
    return run;
  }
  PipelineInputs pipeline = pipeline_inputs(inputs, options, &model);
  run.engine = std::move(pipeline.engine);
  run.arithmetic = pipeline.arithmetic;
  run.pipeline = std::move(pipeline.plan);
  return run;
}

WrittenReplay write_replay(const fs::path& directory, const SimulatedRun& run, const TimeModel& model,
                           plan::Platform platform, const std::vector<plan::SyncEvent>& events) {
  const plan::NetworkModel& network = model.machine.network;
  const int ranks = run.cluster.ranks();
  const std::size_t steps = steps_of(events);
  if (run.pipeline) require_lines(least_lines(*run.pipeline, ranks) * static_cast<double>(steps), steps, ranks);
  const plan::Recording recording =
      run.pipeline ? plan::record(run.engine, *run.pipeline, run.cluster, network, run.arithmetic, steps)
                   : plan::record(run.engine, run.sync, run.sync_group_size, run.cluster, network, run.arithmetic, events);
  WrittenReplay written = {steps, ranks * (1 + recording.lanes), 0, recording.settled};
  require_lines(plan::replay_lines(recording, ranks), steps, ranks);
  std::error_code ignored;
  fs::remove(directory / about_name, ignored);
  write_trace(directory / "trace.txt", recording, ranks, written);
  io::write_text_file(directory / "trace.list", "trace.txt\n");
  io::write_text_file(directory / "hosts.txt", plan::host_file(run.cluster, 1 + recording.lanes));
  io::write_text_file(directory / "platform.xml", plan::platform_file(platform, run.cluster, network));
  io::write_text_file(directory / "replay.sh", replay_script(written.processes));
  fs::permissions(directory / "replay.sh", fs::perms::owner_exec, fs::perm_options::add);
  const nlohmann::ordered_json about = {{"format", "shoal-replay"},       {"ranks", ranks},
                                        {"nodes", run.cluster.nodes},     {"lanes", recording.lanes},
                                        {"processes", written.processes}, {"steps", written.steps},
                                        {"tokens_per_step", run.tokens},  {"platform", name_of(platform)},
                                        {"network", model.source},        {"trace_bytes", written.bytes}};
  io::write_text_file(directory / about_name,
                      about.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  return written;
}

double replay(const fs::path& directory, double most_seconds) {
  const std::string script = (directory / "replay.sh").string();
  const CommandOutput output = output_of({"sh", script}, most_seconds);
  constexpr std::string_view says = "Simulation time ";
  const std::size_t found = output.text.rfind(says);
  if (output.problem.empty() && found != std::string::npos) {
    const double seconds = std::strtod(output.text.c_str() + found + says.size(), nullptr);
    if (seconds > 0) return seconds;
  }
  const std::size_t last = output.text.find_last_not_of('\n');
  const std::size_t line = last == std::string::npos ? 0 : output.text.rfind('\n', last) + 1;
  fail(script, ": SimGrid's smpirun did not replay the trace: ", output.problem.empty() ? "no result" : output.problem, ": ",
       output.text.substr(line, last == std::string::npos ? 0 : last + 1 - line));
}

std::vector<config::CommandSpec::Own> trace_out_options() {
  return {{"trace-out", std::string{}, "", config::any().as("the path of a directory"),
           "with --network and one number of ranks: write the deck's steps as a trace that SimGrid replays"},
          {"platform", std::string(name_of(plan::Platform::two_level)), "", config::one_of(names<plan::Platform>()),
           "with --trace-out: the network between the nodes"},
          {"steps", std::uint64_t{0}, "steps", config::any(),
           "with --trace-out: this many steps; 0: those after which everything repeats"}};
}

namespace {

/// The deck's run on so many ranks.
SimulatedRun run_of(const config::Invocation& deck, int ranks, const TimeModel& model,
                    const std::optional<std::size_t>& limit) {
  const plan::Cluster cluster = model.cluster_of(ranks, deck.options.comm.ranks_per_node);
  config::Invocation asked = deck;
  asked.options.comm.ranks_per_node = cluster.ranks_per_node;
  config::Options options = resolved(asked, ranks).run.options;
  require_simulated(options);
  set_vocab_size(options);
  return simulated_run(options, cluster, model, limit);
}

}  // namespace

bool trace_out(const config::Invocation& invocation, const std::optional<std::size_t>& limit) {
  const fs::path directory = invocation.own<std::string>("trace-out");
  const auto platform = invocation.own_named<plan::Platform>("platform");
  const auto steps = static_cast<std::size_t>(invocation.own<std::uint64_t>("steps"));
  if (directory.empty()) {
    require_input(platform == plan::Platform::two_level && steps == 0, "--platform and --steps need --trace-out DIR");
    return false;
  }
  require_input(invocation.own<std::string>("json").empty(), "--trace-out writes no --json FILE; allowed: one of them");
  const std::optional<TimeModel> model = time_model(invocation);
  require_input(model.has_value(), "--trace-out needs --network FILE, a result of `shoal bench comm --output FILE`");
  const std::vector<int> ranks = rank_counts(invocation.own<std::string>("ranks"));
  require_input(ranks.size() == 1, "--trace-out needs one number of ranks, as in --ranks 64, not ", ranks.size());
  constexpr std::size_t most_steps = 100'000;
  require_input(steps <= most_steps, "--steps = ", steps, "; allowed: up to ", most_steps);
  const SimulatedRun run = run_of(invocation, ranks.front(), *model, limit);
  io::make_writable("--trace-out " + directory.string(), directory);
  const io::OwnKind kind = own_replay();
  const fs::path about = directory / about_name;
  if (!fs::exists(about)) {
    require_input(fs::is_empty(directory), "--trace-out ", directory.string(),
                  ": holds files that are not a trace for SimGrid; allowed: a new or an empty directory");
  }
  io::require_target("--trace-out ", about, kind, invocation.options.output.overwrite);
  const WrittenReplay written = write_replay(directory, run, *model, platform, events_of(run, steps));
  std::printf("# %s: %s of %s on %s (%s), %d processes, %s\n# replay it: %s\n", directory.string().c_str(),
              counted(written.steps, "step").c_str(), counted(run.cluster.ranks(), "rank").c_str(),
              counted(run.cluster.nodes, "node").c_str(), name_of(platform), written.processes,
              bytes_text(written.bytes).c_str(), path_word(directory / "replay.sh").c_str());
  return true;
}

}  // namespace shoal::app
