// SPDX-License-Identifier: Apache-2.0
// What a rank is doing, as it sees it itself and as another process reads it.
#include "shoal/base/activity.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace shoal::activity {
namespace of_activity_test {

Operation gather(std::uint64_t number) { return {name_from("all_gather"), number, 17, 3, 0}; }

TEST(Activity, AWaitIsSeenWhileItLastsAndAfterIt) {
  enter_phase("step");
  begin_wait(gather(4));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Picture during = picture();
  EXPECT_EQ(during.waits, 1);
  EXPECT_EQ(text_of(during.phase), "step");
  EXPECT_EQ(text_of(during.operation.name), "all_gather");
  EXPECT_EQ(during.operation.number, 4U);
  EXPECT_EQ(during.operation.unit, 3);
  EXPECT_GE(during.since_s, 0.02);
  const auto before = std::chrono::steady_clock::now();
  beat();
  end_wait();
  const Picture after = picture();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
  EXPECT_EQ(after.waits, 0);
  EXPECT_EQ(after.operation.number, 4U) << "the last wait is remembered";
  EXPECT_LE(after.since_s, passed.count());
}

TEST(Activity, AnAbortIsKeptAndIsNoBeat) {
  enter_phase("step");
  EXPECT_EQ(picture().aborts, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread(set_aborting).join();
  EXPECT_EQ(text_of(picture().phase), "step");
  EXPECT_GE(picture().silent_s, 0.02);
  enter_phase("data");
  EXPECT_EQ(picture().aborts, 1);
}

TEST(Activity, LongNamesAreCut) {
  const std::string name(100, 'x');
  EXPECT_EQ(text_of(name_from(name)).size(), Name().size() - 1);
}

TEST(Activity, CollectivesAreNumberedInEachGroup) {
  const Picture before = picture();
  EXPECT_EQ(count(5), before.started[5] + 1);
  EXPECT_EQ(count(5), before.started[5] + 2);
  EXPECT_EQ(count(6), before.started[6] + 1);
  EXPECT_EQ(picture().started[5], before.started[5] + 2);
  EXPECT_EQ(count(-1), 0U);
  EXPECT_EQ(count(most_groups), 0U);
}

TEST(Activity, AUnitWithoutANameIsANumber) {
  name_units({"embedding", "h.0"});
  EXPECT_EQ(unit_name(1), "h.0");
  EXPECT_EQ(unit_name(2), "2");
  name_units({});
}

/// The child stops itself in the middle of a wait, like a rank that hangs: nobody of it can answer any more.
TEST(Activity, AStoppedProcessIsStillRead) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int descriptor = share();
    enter_phase("checkpoint");
    set_step(9);
    count(2);
    begin_wait(gather(12));
    if (write(pipes[1], &descriptor, sizeof descriptor) != sizeof descriptor) _exit(1);
    raise(SIGSTOP);
    _exit(0);
  }
  int descriptor = -1;
  ASSERT_EQ(read(pipes[0], &descriptor, sizeof descriptor), static_cast<ssize_t>(sizeof descriptor));
  ASSERT_GE(descriptor, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const OtherPage page(child, descriptor);
  const OtherPage of_another_process(getpid(), descriptor);
  ASSERT_TRUE(page.readable());
  EXPECT_FALSE(of_another_process.readable());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Picture seen = page.picture();
  EXPECT_EQ(text_of(seen.phase), "checkpoint");
  EXPECT_EQ(seen.step, 9);
  EXPECT_EQ(seen.waits, 1);
  EXPECT_EQ(seen.operation.number, 12U);
  EXPECT_EQ(seen.started[2], picture().started[2] + 1);
  EXPECT_GE(seen.silent_s, 0.05);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
}

}  // namespace of_activity_test
}  // namespace shoal::activity
