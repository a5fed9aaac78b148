// SPDX-License-Identifier: Apache-2.0
// Runs a program under mpiexec, for tests of how runs end.
#pragma once

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

/// program: with its arguments. environment: "NAME=value ...".
inline Ended launch(const std::string& program, int ranks, const std::string& environment = "") {
  const char* const mpiexec = std::getenv("SHOAL_MPIEXEC");
  const std::string command = environment + " SHOAL_COMM_WAIT=sleep " + (mpiexec != nullptr ? mpiexec : "mpiexec") + " -n " +
                              std::to_string(ranks) + " " + program + " 2>&1";
  const auto begin = std::chrono::steady_clock::now();
  Ended ended;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) ended.said.append(buffer.data(), n);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ended;
}

}  // namespace shoal::test
