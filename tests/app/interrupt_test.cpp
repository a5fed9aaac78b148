// SPDX-License-Identifier: Apache-2.0
#include "app/support/interrupt.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "support/borrowed_stack.hpp"

namespace shoal::app {
namespace of_interrupt_test {

/// The first signal, when the thread that runs handlers has recorded it; 0 after ten seconds.
int recorded() {
  for (int i = 0; i < 10000 && Interrupts::first() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return Interrupts::first();
}

class Kinds : public testing::TestWithParam<int> {};

TEST_P(Kinds, LeaveTheMemoryOfAThreadWithABorrowedStackPointerAlone) {
  if (!support::can_borrow_the_stack_pointer()) GTEST_SKIP() << "the test is written for x86-64";
  const Interrupts interrupts;
  Interrupts::mpi_has_started();
  EXPECT_EQ(support::bytes_changed_by(GetParam(), 0), 0U);
  EXPECT_EQ(recorded(), GetParam());
}

TEST_P(Kinds, AreBlockedOnThreadsThatStartLater) {
  const Interrupts interrupts;
  std::thread([] {
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, GetParam()), 1);
  }).join();
}

INSTANTIATE_TEST_SUITE_P(All, Kinds, testing::Values(SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGHUP),
                         [](const auto& kind) { return signal_name(kind.param); });

TEST(Interrupts, Sigusr1WaitsUntilMpiHasStarted) {
  const Interrupts interrupts;
  kill(getpid(), SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(Interrupts::first(), 0);
  Interrupts::mpi_has_started();
  EXPECT_EQ(recorded(), SIGUSR1);
}

TEST(Interrupts, AWriteThatNobodyReadsIsTheFirstSignalButNeverASecond) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  {
    const Interrupts interrupts;
    EXPECT_EQ(write(ends[1], "x", 1), -1);
    EXPECT_EQ(Interrupts::first(), SIGPIPE);
  }
  {
    const Interrupts interrupts;
    kill(getpid(), SIGTERM);
    EXPECT_EQ(recorded(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than one signal's deliveries may be apart
    EXPECT_EQ(write(ends[1], "x", 1), -1);
    EXPECT_EQ(Interrupts::first(), SIGTERM);
    kill(getpid(), SIGPIPE);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a second signal would end this process
  }
  close(ends[1]);
}

TEST(Interrupts, TheEndOfTheLauncherIsAHangUpButNeverASecondSignal) {
  EXPECT_FALSE(Interrupts::hang_up());
  {
    const Interrupts interrupts;
    EXPECT_TRUE(Interrupts::hang_up());
    EXPECT_EQ(Interrupts::first(), SIGHUP);
  }
  const Interrupts interrupts;
  kill(getpid(), SIGTERM);
  EXPECT_EQ(recorded(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than one signal's deliveries may be apart
  EXPECT_TRUE(Interrupts::hang_up());
  EXPECT_EQ(Interrupts::first(), SIGTERM);
}

TEST(Interrupts, ProcessesThatIgnoreHangUpsGoOn) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const Interrupts interrupts;
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(Interrupts::first(), 0);
  }
  std::signal(SIGHUP, SIG_IGN);  // drops it if it is still pending, since the thread had not started
  std::signal(SIGHUP, SIG_DFL);
}

TEST(InterruptsDeathTest, ASecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Interrupts interrupts;
        kill(getpid(), SIGTERM);
        recorded();
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));
        kill(getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      testing::KilledBySignal(SIGINT), "a second signal: this rank ends at once");
}

TEST(InterruptsDeathTest, StopRecordingEndsTheProcessIfASignalWasRecorded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Interrupts interrupts;
        kill(getpid(), SIGTERM);
        recorded();
        Interrupts::stop_recording();
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace of_interrupt_test
}  // namespace shoal::app
