// SPDX-License-Identifier: Apache-2.0
// The lines of a run's log, one for a step, which rank 0 writes to standard output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/setup/resolve.hpp"
#include "app/train/pace.hpp"
#include "app/train/step_report.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Returns true if a step has a line of its own in the log, besides the first and the last one: those that are a multiple of
/// log_every, and, if no progress is drawn between lines, the first that ends long enough after the last line.
bool has_line(std::int64_t step, std::size_t log_every, bool draws_progress, std::int64_t since_last_line_ns);

/// Step lines: one per log_every steps. Between them the last line is redrawn at every step if the program, or the mpiexec
/// that started it, prints to a terminal; SHOAL_PROGRESS=redraw or plain overrides this. If it is not redrawn, there is a
/// line after every 10 s. All ranks call the same functions; rank 0 prints.
class StepLog {
 public:
  /// peak_gflops: measured_peak(). pace: of a run that has made no step.
  StepLog(const ResolvedRun& resolved, comm::World& world, double peak_gflops, const Pace& pace);
  void step(const StepReport& report);
  /// seconds: what the evaluation took. lowest: said to be the lowest so far.
  void validation(std::int64_t step, double loss, double seconds, bool lowest);
  /// A checkpoint was written, for which the training waited.
  void saved(double seconds) { pace_.save(seconds); }
  void note(const std::string& line);

 private:
  std::string line(const StepReport& report, double seconds);
  void clear();

  const ResolvedRun& resolved_;
  int ranks_;
  double peak_gflops_;
  Pace pace_;
  bool prints_, redraws_, drawn_ = false;
  std::int64_t last_line_ns_;
  double since_line_ = 0;  // seconds of steps
  std::size_t steps_since_line_ = 0;
};

}  // namespace shoal::app
