// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/launched.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"

namespace shoal::comm {

namespace {

/// Number of tasks that a launcher started: Hydra's, also under PBS, and PALS's; Open MPI's; Flux's; LSF's jsrun.
constexpr std::array sizes = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE"};
/// Number of a task among them, of launchers that may not say how many there are: PMIx, PALS.
constexpr std::array numbers = {"PMIX_RANK", "PALS_RANKID"};

/// The variable's number; none if it is not set, or is empty.
std::optional<int> number_in(const char* variable) {
  const char* const words = std::getenv(variable);
  if (words == nullptr || *words == '\0') return std::nullopt;
  const std::string_view all = words;
  int number = 0;
  const auto [parsed, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  require_input(error == std::errc() && parsed == all.data() + all.size(), variable, " = ", words,
                ": not a number of tasks");
  return number;
}

/// The step of SLURM in which the shell of `salloc` runs is not one of the job's runs. Its number is fixed.
bool in_step_of_slurm() {
  const char* const step = std::getenv("SLURM_STEP_ID");
  return number_in("SLURM_STEP_NUM_TASKS") && (step == nullptr || step != std::string_view("4294967290"));
}

}  // namespace

void check_launched(int ranks, Expected expected) {
  const bool in_step = in_step_of_slurm();
  if (in_step || expected == Expected::whole_job) {
    const std::optional<int> of_job = number_in("SLURM_NTASKS");  // within a step the step's, but for --preserve-env
    const std::optional<int> tasks = in_step ? number_in("SLURM_STEP_NUM_TASKS") : of_job;
    const char* const variable = tasks == of_job ? "SLURM_NTASKS" : "SLURM_STEP_NUM_TASKS";
    require_input(!tasks || *tasks <= ranks, "the job has ", variable, " = ", tasks.value_or(0),
                  " tasks, but MPI started a world of ", counted(ranks, "rank"),
                  "; start it as `srun --mpi=pmi2 ...`, with as many ranks as tasks");
  }
  constexpr auto advice =
      "; start it with the launcher of the MPI library that this program is linked with (shoal --version)";
  for (const char* const variable : sizes) {
    const std::optional<int> tasks = number_in(variable);
    require_input(!tasks || *tasks <= ranks, "the launcher started ", variable, " = ", tasks.value_or(0),
                  " tasks, but MPI started a world of ", counted(ranks, "rank"), advice);
  }
  for (const char* const variable : numbers) {
    const std::optional<int> number = number_in(variable);
    require_input(!number || *number < ranks, "the launcher started this task as ", variable, " = ", number.value_or(0),
                  ", but MPI started a world of ", counted(ranks, "rank"), advice);
  }
}

}  // namespace shoal::comm
