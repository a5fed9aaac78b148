// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl in the output directory: a line for each step, written during the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/train/settled.hpp"
#include "app/train/step_report.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

/// Passes the lines of metrics.jsonl up to a step, and their steps, to `handle`, one by one, without an unfinished last
/// line. bad_input() names the first line that is not a run's (FILE:LINE).
void for_lines_until(const std::filesystem::path& metrics, std::int64_t last_step,
                     const std::function<void(const std::string& line, std::int64_t step)>& handle);

/// metrics.jsonl: one line per step, which rank 0 writes as soon as the step is done.
class Metrics {
 public:
  /// Removes the lines of steps after first_step, since this run does these steps again. Warns if lines before them are
  /// missing: the earlier run could not write them.
  Metrics(comm::World& world, const std::filesystem::path& directory, std::int64_t first_step);
  /// On rank 0: the steps before this run's first one, as far as there are lines of them.
  const std::vector<StepTime>& earlier() const { return earlier_; }
  /// Writes the step's line. If it is there already, without the validation loss, adds the loss. After an error no further
  /// line is written: the run is to save its state before it ends with require_written().
  void write(const StepReport& report, double tokens, std::optional<double> validation);
  /// Waits until the lines are on disk, to be called before a checkpoint of their steps is.
  void sync();
  bool failed() const { return !problem_.empty(); }
  /// Calls fail() if write() has failed.
  void require_written() const;
  /// Calls fail() if metrics.jsonl is no longer the file that is written: somebody removed it.
  void require_there() const;

 private:
  template <typename Write>
  void try_to(const Write& write);

  io::LineFile file_;              // on rank 0
  std::vector<StepTime> earlier_;  // on rank 0
  std::string problem_;
  std::int64_t last_ = 0;  // the step of the last line
};

}  // namespace shoal::app
