// SPDX-License-Identifier: Apache-2.0
// The log for people, which rank 0 writes to standard output: the banner, a line per step, and the closing summary with a
// verdict.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "output.hpp"
#include "saves.hpp"
#include "setup.hpp"
#include "shoal/base/error.hpp"
#include "trainer.hpp"
#include "verdict.hpp"

namespace shoal::app {

/// "1 h 02 min", "43 s".
std::string human_time(double seconds);
/// The number with this many digits after the point.
std::string fixed(double value, int digits);

/// Prints lines "name   value", aligned, under a title. The texts may come from a file, so control characters are escaped.
void print_table(const std::string& title, const std::vector<std::pair<std::string, std::string>>& rows);

/// The head of the log. binding: describe_binding(). peak_gflops: measured_peak(). most_taken: the memory of the rank that
/// took most, by kind.
void print_banner(const Setup& setup, comm::World& world, const std::string& binding, const Ledger& most_taken,
                  double peak_gflops);

/// Step lines: one per log_every steps. Between them the last line is redrawn at every step if standard output is a
/// terminal; SHOAL_PROGRESS=redraw or plain overrides this.
class StepLog {
 public:
  StepLog(const Setup& setup, comm::World& world, double peak_gflops, std::int64_t first_step);
  void step(const StepReport& report);
  void validation(std::int64_t step, double loss);
  void note(const std::string& line);

 private:
  std::string line(const StepReport& report, double seconds);
  double position(const StepReport& report) const;
  void clear();

  const Setup& setup_;
  int ranks_;
  double peak_gflops_;
  std::int64_t first_step_;
  bool prints_, redraws_, drawn_ = false;
  double seconds_ = 0, since_line_ = 0;
  double begin_ = 0;  // the position before the first step
  std::size_t steps_since_line_ = 0;
};

/// Prints the closing summary. Its last line is the verdict.
void print_verdict(comm::World& world, const Setup& setup, const Memory& memory, const History& history, const Saves& saves,
                   const Verdict& verdict);

}  // namespace shoal::app
