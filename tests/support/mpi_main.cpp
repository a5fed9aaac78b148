// SPDX-License-Identifier: Apache-2.0
// main() of tests that run on several ranks: starts MPI and the kernels, and runs every test on all ranks. Rank 0 prints the
// results, the other ranks only their failures. All ranks end with the same exit code. A test that hangs is ended after a
// minute, and its name is printed.
#include "support/mpi_main.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/kernels/runtime.hpp"
#include "support/one_file.hpp"
#include "support/skips.hpp"

namespace shoal::test {

namespace {

comm::World* the_world = nullptr;

struct RankCondition {
  const char* suite;
  const char* test;
  bool (*holds)(int ranks);
};

std::vector<RankCondition>& rank_conditions() {
  static std::vector<RankCondition> all;
  return all;
}

/// Leaves out the tests whose SHOAL_RUN_IF() does not hold. A filter of gtest is "WANTED-UNWANTED:UNWANTED:...".
void leave_out_tests_for_other_ranks() {
  std::string& filter = testing::GTEST_FLAG(filter);
  for (const RankCondition& condition : rank_conditions()) {
    if (condition.holds(world().size())) continue;
    filter += filter.find('-') == std::string::npos ? '-' : ':';
    filter += text(condition.suite, ".", condition.test, ":", condition.suite, "/*.", condition.test);  // /*: typed tests
  }
}

#ifdef __SANITIZE_ADDRESS__
constexpr unsigned longest_test_s = 180;  // three times as long, as CTest's time limits
#else
constexpr unsigned longest_test_s = 60;
#endif
std::array<char, 256> hang_message{};  // written before each test: a signal handler may do little

extern "C" void end_hanging_test(int) {
  std::size_t length = 0;
  while (length < hang_message.size() && hang_message[length] != '\0') ++length;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, hang_message.data(), length);
  _exit(1);
}

/// Ends a test that takes longer than longest_test_s, and prints its name and the rank.
class TimeLimit : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const std::string message = text("rank ", world().rank(), ": ", test.test_suite_name(), ".", test.name(),
                                     " did not end within ", longest_test_s, " s\n");
    hang_message.fill('\0');
    message.copy(hang_message.data(), hang_message.size() - 1);
    alarm(longest_test_s);
  }
  void OnTestEnd(const testing::TestInfo&) override { alarm(0); }
};

/// Prints the failures of a rank other than 0, each line with the rank's number.
class Failures : public testing::EmptyTestEventListener {
  // The name is stored here, because gtest holds the lock of current_test_info() while it reports a result.
  void OnTestStart(const testing::TestInfo& test) override { test_ = text(test.test_suite_name(), ".", test.name()); }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string head = text("[rank ", world().rank(), "] ");
    std::istringstream lines(text(test_, ": ", result.file_name() != nullptr ? result.file_name() : "", ":",
                                  result.line_number(), "\n", result.message(), "\n"));
    std::string out, line;
    while (std::getline(lines, line)) out += head + line + "\n";
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
  }

  std::string test_;
};

int run_all() {
  leave_out_tests_for_other_ranks();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world().rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);
  }
  std::signal(SIGALRM, end_hanging_test);
  listeners.Append(new TimeLimit);
  listeners.Append(new PrintsSkips);
  return RUN_ALL_TESTS();
}

}  // namespace

comm::World& world() { return *the_world; }

bool detail::add_rank_condition(const char* suite, const char* test, bool (*holds)(int ranks)) {
  rank_conditions().push_back({suite, test, holds});
  return true;
}

}  // namespace shoal::test

int main(int argc, char** argv) {
  shoal::comm::World world(argc, argv);
  shoal::test::the_world = &world;
  try {
    testing::InitGoogleTest(&argc, argv);
    shoal::test::choose_file(argc, argv);
    world.make_groups(shoal::test::comm_options());
    const shoal::kernels::Runtime runtime(1);
    const int result = world.agree(shoal::test::with_messages(shoal::test::run_all));
    return shoal::test::exit_code(result);
  } catch (const std::exception& error) {
    return world.end_with_error(shoal::Exit::failed, shoal::Seen::here, error.what());
  }
}
