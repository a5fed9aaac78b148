// SPDX-License-Identifier: Apache-2.0
// What a person reads: the banner, a line per step, the closing summary with a verdict. Written by rank 0 to standard
// output.
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
/// Fixed-point with this many digits after the point.
std::string fixed(double value, int digits);

/// Lines "name   value", aligned, under a title. They may come from a file: what a terminal would obey is shown.
void print_table(const std::string& title, const std::vector<std::pair<std::string, std::string>>& rows);

/// The head of the log. peak_gflops: measured, of one rank. most_taken: by kind, of the rank that took most.
void print_banner(const Setup& setup, comm::World& world, const Ledger& most_taken, double peak_gflops);

/// Step lines: one per log_every steps, and between them a line that is redrawn where standard output is a terminal (or
/// SHOAL_PROGRESS=redraw says that what reads it is one; =plain says it is not).
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
  bool speaks_, redraws_, drawn_ = false;
  double seconds_ = 0, since_line_ = 0;
  double begin_ = 0;  // the position before the first step
  std::size_t steps_since_line_ = 0;
};

/// Why the run ended, what it reached, and whether it took what was planned.
void print_verdict(comm::World& world, const Setup& setup, const Memory& memory, const History& history, const Saves& saves,
                   const Verdict& verdict);

}  // namespace shoal::app
