// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);  // it has ended, and stays a zombie
  EXPECT_EQ(id.number, child);
  EXPECT_FALSE(is_running(id));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(id));
}

}  // namespace
}  // namespace shoal::comm
