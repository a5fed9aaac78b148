// SPDX-License-Identifier: Apache-2.0
// Asks another program, without a shell.
#pragma once

#include <string>
#include <vector>

namespace shoal::app {

struct CommandOutput {
  std::string text;     ///< standard output
  std::string problem;  ///< empty: the program ended with exit code 0. "no such program", "no answer within 10 s", ...
};

/// Runs a program, found in PATH, and waits for it, but not longer than this; then it is killed. Its standard error is
/// dropped. The process is not copied (posix_spawn), since MPI libraries may have registered its memory with a network
/// adapter. Beats while it waits (base/heartbeat.hpp).
CommandOutput output_of(const std::vector<std::string>& command, double most_seconds);

}  // namespace shoal::app
