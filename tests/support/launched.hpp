// SPDX-License-Identifier: Apache-2.0
// Runs a program under mpiexec, for tests of how runs end.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace shoal::test {

struct Ended {
  int code = -1;
  std::string said;  // standard output and error
  double seconds = 0;
};

/// Ranks that stall in these tests do so for longer. So a run that goes on for this time would not have ended by itself, or
/// only with them.
inline constexpr int longest_run_s = 60;

/// The test fails if the run does not end by itself. program: with its arguments. environment: "NAME=value ...".
inline Ended launch(const std::string& program, int ranks, const std::string& environment = "") {
  const char* const mpiexec = std::getenv("SHOAL_MPIEXEC");
  const std::string command = environment + " SHOAL_COMM_WAIT=sleep timeout " + std::to_string(longest_run_s) + " " +
                              (mpiexec != nullptr ? mpiexec : "mpiexec") + " -n " + std::to_string(ranks) + " " + program +
                              " < /dev/null 2>&1";  // timeout's process group may not read a terminal
  const auto begin = std::chrono::steady_clock::now();
  Ended ended;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) ended.said.append(buffer.data(), n);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  constexpr int ended_by_timeout = 124;
  EXPECT_NE(ended.code, ended_by_timeout) << "it did not end within " << longest_run_s << " s\n" << ended.said;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ended;
}

}  // namespace shoal::test
