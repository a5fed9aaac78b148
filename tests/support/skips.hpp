// SPDX-License-Identifier: Apache-2.0
// Tests that are left out. Both main()s of the tests (main.cpp, mpi_main.cpp) say aloud which, and why: CI lists these
// lines. A program in which no test ran to its end has tested nothing, and says so by its exit code.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace shoal::test {

/// What CMake's SKIP_RETURN_CODE is.
inline constexpr int exit_skipped = 77;

/// A line for every test that was left out: "SKIPPED: Suite.Test: reason".
class TellsSkips : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    if (!result.Skipped()) return;
    std::string reason;
    for (int i = 0; i < result.total_part_count(); ++i) {
      if (result.GetTestPartResult(i).skipped()) reason = result.GetTestPartResult(i).message();
    }
    const std::string first_line = reason.substr(0, reason.find('\n'));
    std::printf("SKIPPED: %s.%s: %s\n", test.test_suite_name(), test.name(), first_line.c_str());
    std::fflush(stdout);
  }
};

/// The program's exit code after RUN_ALL_TESTS() returned `result`.
inline int exit_code(int result) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (result != 0 || all.successful_test_count() > 0) return result;
  std::fprintf(stderr, "no test ran\n");
  return all.skipped_test_count() > 0 ? exit_skipped : 1;
}

}  // namespace shoal::test
