// SPDX-License-Identifier: Apache-2.0
// shoal train: checks the options, sets up, loads what the run starts from, and trains.
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "banner.hpp"
#include "binding.hpp"
#include "collective.hpp"
#include "commands.hpp"
#include "device_start.hpp"
#include "interrupt.hpp"
#include "output.hpp"
#include "pays_off.hpp"
#include "peak.hpp"
#include "plan_stages.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "run.hpp"
#include "run_files.hpp"
#include "run_trace.hpp"
#include "setup.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/notation.hpp"
#include "stop_clock.hpp"
#include "weights.hpp"

namespace shoal::app {

namespace {

/// The most bytes of any rank, by kind.
Ledger largest_over_ranks(comm::World& world, const Ledger& taken) {
  std::array<std::uint64_t, kinds.size()> bytes{};
  for (const Kind kind : kinds) bytes[static_cast<std::size_t>(kind)] = taken[kind];
  world.all().all_reduce(Span<std::uint64_t>(bytes), comm::Reduce::max).wait();
  Ledger most;
  for (const Kind kind : kinds) most[kind] = bytes[static_cast<std::size_t>(kind)];
  return most;
}

/// Returns true if the run starts from model.init_from, and not from a checkpoint.
bool starts_from_weights(const config::Options& o) {
  if (o.model.init_from.empty()) return false;
  if (o.checkpoint.resume == "latest") return io::list_checkpoints(checkpoint_directory(o)).empty();
  return o.checkpoint.resume == "none";
}

/// --dry-run: prints the memory that the run would take, with pipelines that of the largest stage and of each, and what was
/// checked.
void print_plan(comm::World& world, const Setup& setup) {
  if (world.all().rank() != 0) return;
  const std::size_t stage = setup.all_stages->largest;
  const std::size_t rank = stage * static_cast<std::size_t>(setup.division.ranks);  // of the first data-parallel rank
  const plan::MemoryPlan& plan = setup.all_stages->memory[stage];
  TextRows rows;
  for (const auto& part : plan.parts) {
    rows.emplace_back(part.label, text(plan::bytes_text(part.bytes), " (", name_of(part.kind), ")"));
  }
  rows.emplace_back("total", plan::bytes_text(plan.bytes.total()));
  const int ranks = setup.division.ranks * setup.division.axes.model();
  print_table(text("planned memory of rank ", rank, " of ", ranks), rows);
  if (setup.options.pipeline.size > 1) {
    std::printf("# stages of the pipeline, each of %s\n", counted(setup.division.ranks, "rank").c_str());
    print_stages(stage_rows(*setup.all_stages), '#');
  }
  if (ranks > 1 && ranks != world.size() && setup.options.comm.ranks_per_node == 0 && depends_on_nodes(setup.options)) {
    std::printf("# %d ranks: %s\n", ranks, unknown_nodes);
  }
  std::printf("# dry run passed: options, data, memory, directories%s\n",
              starts_from_weights(setup.options) ? ", weights" : "");
  std::printf("# not checked: checkpoint.resume, and files that output.dir holds already\n");
}

void check_device(device::DeviceKind asked) {
  const device::DeviceKind own = device::kind();
  require_input(asked == device::DeviceKind::automatic || asked == own, "train.device = ", name_of(asked),
                ": this program computes on the ", name_of(own), "; the program that computes on ", name_of(asked), " is ",
                row_of(asked).program);
}

Exit train(comm::World& world, config::Invocation& invocation) {
  const int ranks = invocation.ranks > 0 ? invocation.ranks : world.size();
  config::validate(invocation, ranks);
  if (world.all().rank() == 0) {
    for (const std::string& key : invocation.not_built) std::fprintf(stderr, "not built yet: %s\n", key.c_str());
    std::FILE* const log =
        invocation.print_config ? stderr : stdout;  // standard output holds the deck alone, so that it can be read back
    for (const std::string& note : invocation.notes) std::fprintf(log, "# %s\n", note.c_str());
  }
  if (invocation.print_config || invocation.dry_run) Interrupts::stop_recording();
  if (invocation.print_config) {
    if (world.all().rank() == 0) std::fputs(config::print(invocation.options).c_str(), stdout);
    return Exit::done;
  }
  check_device(invocation.options.train.device);
  const Setup setup = prepare(world, invocation.options, ranks, Purpose::train);
  if (starts_from_weights(setup.options)) check_weights(setup.options.model);
  if (invocation.dry_run) {
    on_rank_0(world.all(), [&] { require_writable(setup.options); });
    print_plan(world, setup);
    return Exit::done;
  }
  require_input(ranks == world.size(), "--ranks ", ranks, ": ", counted(world.size(), "rank"),
                world.size() == 1 ? " was" : " were",
                " started; another number goes with --dry-run or --print-config alone");
  const config::Options& o = setup.options;
  StopClock clock(world, invocation);
  open_device(world);
  RunFiles files(world, o);
  const std::string binding = describe_binding(world);  // before OpenMP may bind this thread to one of the rank's cores
  const kernels::Runtime runtime(setup.threads);
  kernels::connect_trace();
  start_trace(world, o);

  const double peak = measured_peak(world, setup.engine.dtype);
  require_room(world, setup);
  Machine machine(setup, world);
  const Ledger most_taken = largest_over_ranks(world, machine.memory.taken());
  if (world.all().rank() == 0) print_banner(setup, world, binding, most_taken, peak);
  print_pays_off(setup, world, machine, peak);
  clock.print_limit();
  heartbeat::phase("load");
  const std::unique_ptr<io::CheckpointDirectory> directory = open_checkpoint_directory(world, o);
  const std::optional<Resumed> before = resume(world, setup, machine, directory.get());
  if (!before) {
    if (o.model.init_from.empty()) {
      machine.engine.initialize(o.train.seed);
    } else {
      import_weights(o.model, machine.engine);
    }
    if (machine.synchroniser) {
      machine.engine.wait_for_parameters();  // in fp32 they are the masters, which the synchronizer may sum in place
      machine.synchroniser->start_from_masters();
    }
  }
  Run run(world, setup, files, machine, before, directory.get(), clock, peak);
  return run.close(run.steps());
}

}  // namespace

Command train_command() {
  return {.spec = {.name = "train", .summary = "train a model; writes metrics, a trace and checkpoints"},
          .run = train,
          .has_stages = true};
}

}  // namespace shoal::app
