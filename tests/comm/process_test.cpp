// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/process.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "comm/world/shared_memory.hpp"

namespace shoal::comm {
namespace {

TEST(Process, ThisOneRuns) {
  const ProcessId self = this_process();
  EXPECT_EQ(self.number, getpid());
  EXPECT_TRUE(self.visible_from(self));
  EXPECT_TRUE(is_running(self));
}

TEST(Process, AnotherThatHasTheNumberNowIsNotIt) {
  ProcessId earlier = this_process();
  earlier.started -= 1;
  EXPECT_FALSE(is_running(earlier));
}

TEST(SharedMemory, ProcessesThatCannotShareItAreOnOtherNodes) {
  const SharedMemory mine = shared_memory("node1");
  EXPECT_EQ(mine, shared_memory("node1"));
  EXPECT_NE(mine, shared_memory("node2")) << "virtual machines of one snapshot";
  EXPECT_NE(mine.kernel, 0U);
  const int child = fork();
  if (child == 0) {  // its own /dev/shm, as in a container with the same host name
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, nullptr) != 0)
      _exit(77);
    _exit(shared_memory("node1") == mine ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting needs rights that this process has not";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Process, InAnotherNameSpaceOrMachineItCannotBeSeen) {
  const ProcessId self = this_process();
  ProcessId other = self;
  other.name_space += 1;
  EXPECT_FALSE(other.visible_from(self));
  other = self;
  other.machine += 1;
  EXPECT_FALSE(other.visible_from(self));
}

TEST(Process, OneThatHasEndedDoesNotRunEvenWhileNobodyHasTakenItsStatus) {
  int ids[2];
  ASSERT_EQ(pipe(ids), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ProcessId self = this_process();
    _exit(write(ids[1], &self, sizeof self) == sizeof self ? 0 : 1);
  }
  ProcessId id;
  ASSERT_EQ(read(ids[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);  // it has ended, and remains as a zombie
  EXPECT_EQ(id.number, child);
  EXPECT_FALSE(is_running(id));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(id));
}

/// The tests below run it in a separate process.
TEST(ProcessChild, DISABLED_PrintsItsLauncher) {
  const auto found = launcher();
  std::printf("launcher %lld\n", found ? static_cast<long long>(found->number) : 0LL);
}

/// A shell prints its process number, then runs `command`, in which CHILD is replaced by a call of the test above.
std::pair<long long, long long> shell_and_launcher(std::string command) {
  const std::string child = std::filesystem::read_symlink("/proc/self/exe").string() +
                            " --gtest_also_run_disabled_tests --gtest_filter=ProcessChild.* | grep ^launcher";
  command.replace(command.find("CHILD"), 5, child);
  FILE* const pipe = popen(("echo $$; " + command + "; true").c_str(), "r");
  std::pair<long long, long long> numbers{-1, -1};
  if (pipe == nullptr || std::fscanf(pipe, "%lld launcher %lld", &numbers.first, &numbers.second) != 2) numbers = {-1, -1};
  if (pipe != nullptr) pclose(pipe);
  return numbers;
}

class Launched : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Launched, TheLauncherIsFoundAboveShells) {
  for (const char* command : {"PMI_RANK=0 sh -c 'CHILD; true'", "PMIX_RANK=1 sh -c 'sh -c \"CHILD; true\"; true'"}) {
    const auto [shell, found] = shell_and_launcher(command);
    EXPECT_GT(shell, 1);
    EXPECT_EQ(found, shell) << command;
  }
}

TEST_F(Launched, WhoIsStartedByHandHasNone) {
  const auto [shell, found] = shell_and_launcher("sh -c 'CHILD; true'");
  EXPECT_GT(shell, 1);
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace shoal::comm
