// SPDX-License-Identifier: Apache-2.0
// Starts MPI, reads the command line and runs the command. Errors are caught here alone, and all ranks end with one exit
// code.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/support/interrupt.hpp"
#include "app/support/library_versions.hpp"
#include "app/support/version.hpp"
#include "commands.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/comm/hydra_helper.hpp"
#include "shoal/comm/launched.hpp"
#include "shoal/comm/shared_text.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/input_text.hpp"
#include "shoal/config/located.hpp"
#include "shoal/config/value.hpp"
#include "shoal/device/queue.hpp"

namespace shoal::app {

namespace {

std::array<Command, 11> commands() {
  return {train_command(),  plan_command(), bench_command(),     eval_command(),  generate_command(), tokenize_command(),
          export_command(), info_command(), jobscript_command(), study_command(), doctor_command()};
}

std::string usage() {
  std::string result = "usage: mpiexec -n RANKS shoal COMMAND [ARGUMENT ...] [--section.name=value ...]\n\n";
  for (const Command& command : commands()) {
    result += "  " + command.spec.name + std::string(11 - command.spec.name.size(), ' ') + command.spec.summary + "\n";
  }
  return result + "\n`shoal COMMAND --help` explains a command; `shoal --version` lists the libraries and their versions.\n";
}

void print(const comm::World& world, const std::string& what) {
  if (world.rank() == 0) std::fputs(what.c_str(), stdout);
}

void print_versions(const comm::World& world) {
  std::string lines = "shoal " + version() + "\n";
  for (const auto& [name, library] : library_versions()) lines += text("  ", name, " ", library, "\n");
  print(world, lines);
}

/// If pipeline.size does not divide the ranks, the command refuses it later, naming file and line.
comm::Axes axes_of(const Command& command, const config::Options& options, int ranks) {
  const int stages = options.pipeline.size;
  return {.tensor = 1, .pipeline = command.has_stages && ranks % stages == 0 ? stages : 1};
}

/// Groups of ranks as the options say. A command that runs alone, or for a number of ranks that were not started (--ranks),
/// needs none but those of this world.
void make_groups(comm::World& world, const Command& command, const config::Invocation& invocation) {
  const comm::CommOptions& options = invocation.options.comm;
  if (command.alone || (invocation.ranks > 0 && invocation.ranks != world.size())) return world.make_groups({});
  for (const std::string& problem : {comm::ranks_per_node_problem(options, world.size()), comm::backend_problem(options)}) {
    require_input(problem.empty(),
                  config::located(problem, invocation.places));  // world.make_groups() knows neither file nor line
  }
  world.make_groups(options, axes_of(command, invocation.options, world.size()));
}

void check_launcher(const comm::World& world, const Command& command, const config::Invocation& invocation) {
  if (command.alone) return;
  const bool one_may_run = command.one_may_run || invocation.print_config || invocation.ranks > 0;
  comm::check_launched(world.size(), one_may_run ? comm::Expected::launched : comm::Expected::whole_job);
}

Exit run_command(comm::World& world, const Command& command, int argc, char** argv) {
  config::Invocation invocation;
  {
    const config::SharedInputs inputs(comm::text_of_rank_0);
    invocation = config::parse(command.spec, argc, argv);
  }
  if (invocation.help) {
    print(world, invocation.help_as_markdown ? config::help_as_markdown(command.spec) : config::help(command.spec));
    return Exit::done;
  }
  check_launcher(world, command, invocation);
  make_groups(world, command, invocation);
  const double timeout = invocation.options.comm.timeout, own = command.longest_silence_s;
  const comm::Watchdog watchdog(world, own > 0 ? std::min(own, timeout) : timeout, Interrupts::hang_up);
  const Exit exit = command.run(world, invocation);
  heartbeat::phase("exit");
  return exit;
}

Exit run(comm::World& world, int argc, char** argv) {
  device::start();
  const std::string_view first = argc > 1 ? argv[1] : "--help";
  if (first == "--help" || first == "-h" || first == "help") {
    print(world, usage());
    return Exit::done;
  }
  if (first == "--version") {
    print_versions(world);
    return Exit::done;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (first == command.spec.name) return run_command(world, command, argc - 2, argv + 2);
    names.push_back(command.spec.name);
  }
  bad_input("no such command: ", first, "; allowed: ", config::joined(names), " (shoal --help)");
}

/// Runs the command and returns the exit code of all ranks.
int run_to_the_end(comm::World& world, int argc, char** argv) {
  try {
    return world.agree(static_cast<int>(run(world, argc, argv)));
  } catch (const Error& error) {
    return world.end_with_error(error.code(), error.seen(), error.what());
  } catch (const std::exception& error) {  // from the standard library: out of memory, file systems
    return world.end_with_error(Exit::failed, Seen::here, error.what());
  }
}

/// Each rank keeps all files of its data open, of which there may be thousands, and most systems start processes with a
/// limit of 1024 that they may raise themselves. The cap matters: some libraries allocate a table with one entry per file.
void raise_limit_of_open_files() {
  constexpr rlim_t most = 65536;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= most) return;
  files.rlim_cur = std::min(files.rlim_max, most);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));  // if it fails, a file that cannot be opened is an error
}

}  // namespace

}  // namespace shoal::app

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit is an error of the write, as on a full disk
  shoal::app::raise_limit_of_open_files();
  std::optional<shoal::app::Interrupts> interrupts;
  if (argc > 1 && argv[1] == std::string_view("train")) {
    shoal::comm::start_hydra_helper(argc, argv);
    interrupts.emplace();
  }
  shoal::comm::World world(argc, argv);
  if (interrupts) shoal::app::Interrupts::mpi_has_started();
  return shoal::app::run_to_the_end(world, argc, argv);
}
