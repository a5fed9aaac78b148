// SPDX-License-Identifier: Apache-2.0
// The lines of a run's log, one for a step, which rank 0 writes to standard output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/setup/resolve.hpp"
#include "app/train/step_report.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Step lines: one per log_every steps. Between them the last line is redrawn at every step if standard output is a
/// terminal; SHOAL_PROGRESS=redraw or plain overrides this. All ranks call the same functions; rank 0 prints.
class StepLog {
 public:
  /// peak_gflops: measured_peak(). first_step: number of steps before this run's first.
  StepLog(const ResolvedRun& resolved, comm::World& world, double peak_gflops, std::int64_t first_step);
  void step(const StepReport& report);
  /// lowest: said to be the lowest so far.
  void validation(std::int64_t step, double loss, bool lowest);
  void note(const std::string& line);

 private:
  std::string line(const StepReport& report, double seconds);
  double position(const StepReport& report) const;
  void clear();

  const ResolvedRun& resolved_;
  int ranks_;
  double peak_gflops_;
  std::int64_t first_step_;
  bool prints_, redraws_, drawn_ = false;
  double seconds_ = 0, since_line_ = 0;
  double begin_ = 0;  // the position before the first step
  std::size_t steps_since_line_ = 0;
};

}  // namespace shoal::app
