// SPDX-License-Identifier: Apache-2.0
// Worlds of one rank each, made of the tasks of one run, are found by what launchers say in the environment.
#include "shoal/comm/launched.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Variables = std::initializer_list<std::pair<const char*, const char*>>;

void check(const Variables& variables, int ranks, Expected expected = Expected::whole_job) {
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  try {
    check_launched(ranks, expected);
  } catch (const Error&) {
    for (const auto& variable : variables) unsetenv(variable.first);
    throw;
  }
  for (const auto& variable : variables) unsetenv(variable.first);
}

class Launched : public testing::Test {
 protected:
  void SetUp() override {  // what this test itself was started by does not matter
    for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE", "PMIX_RANK",
                             "PALS_RANKID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"})
      unsetenv(name);
  }
};

TEST_F(Launched, TasksThatAreWorldsOfTheirOwnAreFound) {
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE", "SLURM_NTASKS"}) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(check({{name, "4"}}, 4));
    EXPECT_NO_THROW(check({{name, ""}}, 1));
    EXPECT_THAT(
        [&] {
          check({{name, "4"}}, 1);
        },
        ThrowsMessage<Error>(AllOf(HasSubstr(std::string(name) + " = 4 tasks"), HasSubstr("a world of 1 rank;"))));
    EXPECT_THROW(check({{name, "4x"}}, 1), Error);
    if (name == std::string("SLURM_NTASKS")) continue;
    EXPECT_THROW(check({{name, "4"}}, 1, Expected::launched), Error) << "also if one process may run the command";
  }
}

TEST_F(Launched, TasksAreFoundByTheirNumberToo) {
  for (const char* name : {"PMIX_RANK", "PALS_RANKID"}) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(check({{name, "3"}}, 4));
    EXPECT_NO_THROW(check({{name, "0"}}, 1));
    EXPECT_THAT([&] { check({{name, "3"}}, 1); }, ThrowsMessage<Error>(HasSubstr(std::string(name) + " = 3")));
  }
}

TEST_F(Launched, InAJobOfSlurmOneProcessMayRunWhatNeedsNoMore) {
  EXPECT_THAT([&] { check({{"SLURM_NTASKS", "4"}}, 1); }, ThrowsMessage<Error>(HasSubstr("srun --mpi=pmi2")));
  EXPECT_NO_THROW(check({{"SLURM_NTASKS", "4"}}, 1, Expected::launched));
  EXPECT_THROW(check({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}}, 1, Expected::launched), Error)
      << "tasks of srun";
}

TEST_F(Launched, AStepOfSlurmMayBeSmallerThanItsJob) {
  EXPECT_NO_THROW(check({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}}, 2));
  EXPECT_THAT(
      [&] {
        check({{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 1);
      },
      ThrowsMessage<Error>(HasSubstr("SLURM_STEP_NUM_TASKS = 2")));
  const Variables shell_of_salloc = {{"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_ID", "4294967290"}};
  EXPECT_THROW(check(shell_of_salloc, 1), Error);
  EXPECT_NO_THROW(check(shell_of_salloc, 1, Expected::launched));
}

TEST_F(Launched, AComponentOfAHeterogeneousJobHasFewerTasksThanTheWorld) {
  EXPECT_NO_THROW(check({{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_SIZE", "2"}}, 2));
}

}  // namespace
}  // namespace shoal::comm
