// SPDX-License-Identifier: Apache-2.0
// shoal train: checks the options, sets up, loads what the run starts from, and trains.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/checkpoint/resume.hpp"
#include "app/setup/assembly.hpp"
#include "app/setup/binding.hpp"
#include "app/setup/device_start.hpp"
#include "app/setup/peak.hpp"
#include "app/setup/resolve.hpp"
#include "app/setup/stage_rows.hpp"
#include "app/setup/weights.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/interrupt.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/text_table.hpp"
#include "app/train/banner.hpp"
#include "app/train/disk_space.hpp"
#include "app/train/pays_off.hpp"
#include "app/train/run.hpp"
#include "app/train/run_files.hpp"
#include "app/train/run_log.hpp"
#include "app/train/run_trace.hpp"
#include "app/train/stop_clock.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/config/value.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace {

/// The most bytes of any rank, by kind.
Ledger largest_over_ranks(comm::World& world, const Ledger& taken) {
  std::vector<std::uint64_t> bytes;
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : kinds) bytes.push_back(taken.at(where, kind));
  }
  world.all().all_reduce(Span<std::uint64_t>(bytes), comm::Reduce::max).wait();
  Ledger most;
  auto next = bytes.begin();
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : kinds) most.at(where, kind) = *next++;
  }
  return most;
}

/// Returns true if the run starts from model.init_from, and not from a checkpoint.
bool starts_from_weights(const config::Options& o) {
  if (o.model.init_from.empty()) return false;
  if (o.checkpoint.resume == "latest") return io::list_checkpoints(checkpoint_directory(o)).empty();
  return o.checkpoint.resume == "none";
}

/// --dry-run: prints the memory that the run would take, with pipelines that of the largest stage and of each, and what was
/// checked. not_built: what was asked for and does not exist, so that the run would be refused.
void print_plan(comm::World& world, const ResolvedRun& resolved, const std::vector<std::string>& not_built) {
  if (world.all().rank() != 0) return;
  const std::size_t stage = resolved.all_stages->largest;
  const std::size_t rank = stage * static_cast<std::size_t>(resolved.division.ranks);  // of the first data-parallel rank
  const plan::MemoryPlan& plan = resolved.all_stages->memory[stage];
  TextRows rows;
  for (const auto& part : plan.parts) {
    rows.emplace_back(part.label, text(bytes_text(part.bytes), " (", name_of(part.kind), ")"));
  }
  rows.emplace_back("total", bytes_text(plan.bytes.total()));
  const int ranks = resolved.division.ranks * resolved.division.axes.model();
  print_table(text("planned memory of rank ", rank, " of ", ranks), rows);
  if (resolved.options.pipeline.size > 1) {
    output::print(text("# stages of the pipeline, each of ", counted(resolved.division.ranks, "rank"), "\n"));
    print_stages(stage_rows(*resolved.all_stages), '#');
  }
  if (ranks > 1 && ranks != world.size() && resolved.options.comm.ranks_per_node == 0 &&
      depends_on_nodes(resolved.options)) {
    output::print(text("# ", ranks, " ranks: ", unknown_nodes, "\n"));
  }
  output::print(text("# ", printable(checkpoint_plan(resolved.options)), "\n"));
  if (!not_built.empty()) {
    output::print(
        text("# dry run failed: not built yet: ", config::joined(not_built), "; the memory above is without it\n"));
    return;
  }
  output::print(text("# dry run passed: options, data, memory, directories",
                     starts_from_weights(resolved.options) ? ", weights" : "",
                     "\n# not checked: checkpoint.resume, and files that output.dir holds already\n"));
}

void check_device(device::DeviceKind asked) {
  const device::DeviceKind own = device::kind();
  require_input(asked == device::DeviceKind::automatic || asked == own, "train.device = ", name_of(asked),
                ": this program computes on the ", name_of(own), "; the program that computes on ", name_of(asked), " is ",
                row_of(asked).program);
}

Exit train(comm::World& world, config::Invocation& invocation) {
  const int ranks = invocation.ranks > 0 ? invocation.ranks : world.size();
  if (!invocation.print_config && !invocation.dry_run) keep_for_log(world);
  config::validate(invocation, ranks);
  if (world.all().rank() == 0) {
    for (const std::string& key : invocation.not_built) output::complain(text("not built yet: ", key, "\n"));
    for (const std::string& note : invocation.notes) {
      const std::string line = text("# ", note, "\n");
      // Then standard output holds the deck alone, so that it can be read back.
      invocation.print_config ? output::complain(line) : output::print(line);
    }
  }
  if (invocation.print_config || invocation.dry_run) Interrupts::stop_recording();
  if (invocation.print_config) {
    if (world.all().rank() == 0) output::print(config::print(invocation.options));
    return Exit::done;
  }
  check_device(invocation.options.train.device);
  const ResolvedRun resolved = resolve(world, invocation.options, ranks, Purpose::train);
  if (!resolved.options.model.init_from.empty()) {
    on_rank_0(world.all(), [&] {
      if (!starts_from_weights(resolved.options)) return;
      const std::string note = check_weights(resolved.options.model);
      if (!note.empty()) output::print(text("# ", note, "\n"));
    });
  }
  if (invocation.dry_run) {
    on_rank_0(world.all(), [&] {
      require_writable(resolved.options);
      require_space(resolved.options);
    });
    print_plan(world, resolved, invocation.not_built);
    return invocation.not_built.empty() ? Exit::done : Exit::bad_input;  // as the run itself
  }
  require_input(ranks == world.size(), "--ranks ", ranks, ": ", counted(world.size(), "rank"),
                world.size() == 1 ? " was" : " were",
                " started; another number goes with --dry-run or --print-config alone");
  const config::Options& o = resolved.options;
  StopClock clock(world, invocation);
  open_device(world);
  RunFiles files(world, o);
  start_log(world, o);
  const std::string binding = describe_binding(world);  // before OpenMP may bind this thread to one of the rank's cores
  const kernels::Runtime runtime(resolved.threads);
  kernels::connect_trace();
  start_trace(world, o);

  const double peak = measured_peak(world, resolved.engine.dtype);
  require_room(world, resolved);
  Assembly assembly(resolved, world);
  const Ledger most_taken = largest_over_ranks(world, assembly.memory.taken());
  if (world.all().rank() == 0) print_banner(resolved, world, binding, most_taken, assembly.nvme.get(), peak);
  print_pays_off(resolved, world, assembly, peak);
  clock.print_limit();
  heartbeat::phase("load");
  const std::unique_ptr<io::CheckpointDirectory> directory = open_checkpoint_directory(world, o);
  const std::optional<Resumed> before = resume(world, resolved, assembly, directory.get());
  if (!before) {
    if (o.model.init_from.empty()) {
      assembly.engine.initialize(o.train.seed);
    } else {
      import_weights(o.model, assembly.engine);
    }
    if (assembly.synchroniser) {
      assembly.engine.wait_for_parameters();  // in fp32 they are the masters, which the synchronizer may sum in place
      assembly.synchroniser->start_from_masters();
    }
  }
  Run run(world, resolved, files, assembly, before, directory.get(), clock, peak);
  return run.close(run.steps());
}

}  // namespace

Command train_command() {
  return {.spec = {.name = "train", .summary = "train a model; writes metrics, a trace and checkpoints"},
          .run = train,
          .has_stages = true};
}

}  // namespace shoal::app
