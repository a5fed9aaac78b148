// SPDX-License-Identifier: Apache-2.0
// Skipped tests. Both main() functions of the tests (main.cpp, mpi_main.cpp) print a line for each, with the reason; CI
// lists these lines. A program that skipped all its tests ends with its own exit code, and CTest shows it as skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace shoal::test {

/// CMake's SKIP_RETURN_CODE (src/cmake/ShoalTargets.cmake).
inline constexpr int exit_skipped = 77;

/// Prints a line for every skipped test: "SKIPPED: Suite.Test: reason".
class PrintsSkips : public testing::EmptyTestEventListener {
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

/// Returns the program's exit code if RUN_ALL_TESTS() returned `result`.
inline int exit_code(int result) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (result != 0 || all.successful_test_count() > 0) return result;
  std::fprintf(stderr, "no test ran\n");
  return all.skipped_test_count() > 0 ? exit_skipped : 1;
}

}  // namespace shoal::test
