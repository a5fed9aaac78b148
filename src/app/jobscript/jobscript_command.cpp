// SPDX-License-Identifier: Apache-2.0
// shoal jobscript: writes a script of jobscripts/ with the nodes, the memory and the wall time that a deck needs.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/jobscript/jobscript.hpp"
#include "app/plan/plan_ranks.hpp"
#include "app/setup/open_data.hpp"
#include "app/setup/threads.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/own_results.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/plan/node_memory.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// The options that were given on the command line, as the job needs them.
std::vector<std::string> given_options(const config::Invocation& invocation) {
  require_input(!invocation.deepspeed,
                "jobscript: --deepspeed is not passed on; allowed: the deck that `shoal train "
                "--deepspeed FILE --print-config` prints");
  std::vector<std::string> given;
  for (const auto& [name, value] : config::list(invocation.options)) {
    if (invocation.places.of(name) != "command line" || name == "output.overwrite") continue;
    const bool of_script = name == "output.dir" || name == "checkpoint.dir" || name == "checkpoint.resume";
    require_input(!of_script, "command line: ", name, ": the script sets it; allowed: the variable SHOAL_OUT of the job");
    given.push_back(text("--", name, "=", value));
  }
  return given;
}

/// Plans the memory of a rank; bad_input() if the deck does not fit these ranks, or memory.limit.
void plan_memory(config::Invocation asked, Job& job) {
  const int ranks = static_cast<int>(job.ranks());
  config::validate(asked, ranks);
  config::Options& o = asked.options;
  set_vocab_size(o);
  kernels::set_threads(threads_of_job(asked, job.cores_per_rank, "--cores-per-rank"));
  const std::optional<std::size_t> limit =
      o.memory_limit_gib > 0 ? std::optional(plan::limit_bytes(o.memory_limit_gib)) : std::nullopt;
  const PlanInputs inputs = plan_inputs(o, ranks, static_cast<int>(job.ranks_per_node), limit);
  if (limit) {
    const std::string problem = memory_problem(inputs, o, *limit);
    require_input(problem.empty(), problem);
  }
  job.rank_bytes = host_bytes(inputs.memory().bytes, device::kind());
  job.text_bytes = data::text_bytes(o.data, o.model.vocab_size);
}

Job job_of(const config::Invocation& invocation) {
  Job job;
  job.nodes = invocation.own<std::uint64_t>("nodes");
  job.ranks_per_node = invocation.own<std::uint64_t>("ranks-per-node");
  job.cores_per_rank = invocation.own<std::uint64_t>("cores-per-rank");
  const auto& time = invocation.own<std::string>("time");
  const auto seconds = config::wall_time(time);
  require_input(seconds.value_or(0) > 0, "--time ", config::shown(time),
                ": not a wall time; allowed: ", config::wall_time_forms,
                " (a number alone would be minutes to SLURM and seconds to PBS)");
  job.seconds = *seconds;
  job.program = fs::read_symlink("/proc/self/exe");
  job.deck = fs::absolute(invocation.deck).lexically_normal();
  job.options = given_options(invocation);
  plan_memory(invocation, job);
  return job;
}

Exit jobscript(comm::World& world, config::Invocation& invocation) {
  on_rank_0(world.all(), [&] {
    const fs::path output = invocation.own<std::string>("output");
    require_result("--output ", output, own_job_script(), invocation.options.output.overwrite);
    const std::string script = script_of(job_of(invocation), invocation.own_named<System>("system"));
    if (output.empty()) {
      std::fputs(script.c_str(), stdout);
    } else {
      io::write_text_file(output, script);
    }
  });
  return Exit::done;
}

}  // namespace

Command jobscript_command() {
  using config::at_least;
  using config::between;
  constexpr double most_nodes = 100000, most_on_node = 1024;
  return {{.name = "jobscript",
           .summary = "write a batch script for a deck, with the memory that it needs",
           .arguments = {"DECK"},
           .checks = false,
           .own = {{"system", std::string("slurm"), "", config::one_of(names<System>()), "the batch system"},
                   {"nodes", std::uint64_t{1}, "nodes", between(1, most_nodes), "nodes of the job"},
                   {"ranks-per-node", std::uint64_t{1}, "ranks", between(1, most_on_node),
                    "ranks on each node; on GPUs one for each GPU"},
                   {"cores-per-rank", std::uint64_t{1}, "cores", between(1, most_on_node), "cores, and threads, of a rank"},
                   {"time", std::string("01:00:00"), "", config::not_empty().as(config::wall_time_forms),
                    "wall time; a run that needs more goes on in another job"},
                   {"output", std::string{}, "", config::any().as("the path of a new file"),
                    "write the script there; default: to standard output. --output.overwrite replaces an earlier one"}}},
          jobscript,
          true};
}

}  // namespace shoal::app
