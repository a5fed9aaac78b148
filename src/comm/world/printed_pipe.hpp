// SPDX-License-Identifier: Apache-2.0
// A pipe into which the launcher prints, held open for reading beside its real reader (hydra_helper.hpp says why).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "shoal/comm/process.hpp"

namespace shoal::comm {

/// The name of helper processes in /proc/PID/comm, by which they know each other.
constexpr const char* helper_name = "shoal-helper";

class PrintedPipe {
 public:
  /// Takes over the descriptor, which must be open for reading without blocking; `writer` prints into the pipe.
  PrintedPipe(int descriptor, const ProcessId& writer);
  PrintedPipe(PrintedPipe&& other) noexcept;
  PrintedPipe& operator=(PrintedPipe&&) = delete;
  PrintedPipe(const PrintedPipe&) = delete;
  PrintedPipe& operator=(const PrintedPipe&) = delete;
  ~PrintedPipe();

  /// To be called regularly. Returns true once: when what was printed has not been read for some time, and no process but
  /// helpers has the pipe open for reading. From then on each call reads and drops what was printed.
  bool newly_abandoned();
  /// Returns true if another process than a helper has the pipe open for reading.
  bool has_other_reader() const;

 private:
  void drain() const;

  int descriptor_;
  pid_t group_;  // process group of the writer
  int waiting_ = 0;
  std::chrono::steady_clock::time_point unread_since_;
  bool abandoned_ = false;
};

/// The pipes that are the process's standard output and standard error. Empty if they may not be opened.
std::vector<PrintedPipe> pipes_printed_into(const ProcessId& writer);

}  // namespace shoal::comm
