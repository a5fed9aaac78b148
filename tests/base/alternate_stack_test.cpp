// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/alternate_stack.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/borrowed_stack.hpp"

namespace shoal {
namespace of_alternate_stack_test {

std::atomic<int> received = 0;
void count(int /*signal*/) { ++received; }

/// Installs a handler as libraries do: without an alternate stack.
void install(int signal) {
  struct sigaction action {};
  action.sa_handler = count;
  sigaction(signal, &action, nullptr);
}

/// The bytes of the heap that change when this thread gets the signal while its stack pointer lies there.
std::size_t bytes_changed_by(int signal) {
  const int before = received;
  const std::size_t changed = support::bytes_changed_by(signal, static_cast<pid_t>(syscall(SYS_gettid)));
  EXPECT_EQ(received, before + 1);
  return changed;
}

TEST(AlternateStack, TheFrameOfASignalDestroysWhatABorrowedStackPointerPointsTo) {
  if (!support::can_borrow_the_stack_pointer()) GTEST_SKIP() << "the test is written for x86-64";
  install(SIGPROF);
  std::thread([] { EXPECT_GT(bytes_changed_by(SIGPROF), 100U); }).join();
}

TEST(AlternateStack, HandlersOfLibrariesRunOnIt) {
  if (!support::can_borrow_the_stack_pointer()) GTEST_SKIP() << "the test is written for x86-64";
  install(SIGPROF);
  install(SIGRTMIN + 3);
  put_handlers_on_alternate_stacks();
  std::thread([] {
    use_alternate_stack();
    EXPECT_EQ(bytes_changed_by(SIGPROF), 0U);
    EXPECT_EQ(bytes_changed_by(SIGRTMIN + 3), 0U);
  }).join();
}

TEST(AlternateStack, DefaultActionsStayAsTheyAre) {
  signal(SIGUSR2, SIG_IGN);
  put_handlers_on_alternate_stacks();
  struct sigaction ignored {
  }, untouched{};
  sigaction(SIGUSR2, nullptr, &ignored);
  sigaction(SIGALRM, nullptr, &untouched);
  EXPECT_EQ(ignored.sa_handler, SIG_IGN);
  EXPECT_EQ(untouched.sa_flags & SA_ONSTACK, 0);
}

TEST(AlternateStack, BelongsToOneThreadAndEndsWithIt) {
  void *first = nullptr, *second = nullptr;
  const auto own = [] {
    stack_t used{};
    sigaltstack(nullptr, &used);
    return used.ss_sp;
  };
  std::thread other;
  std::thread([&] {
    use_alternate_stack();
    first = own();
    use_alternate_stack();
    EXPECT_EQ(own(), first);
    std::thread([&] {
      use_alternate_stack();
      second = own();
    }).join();
  }).join();
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_NE(first, second);
}

}  // namespace of_alternate_stack_test
}  // namespace shoal
