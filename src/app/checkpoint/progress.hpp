// SPDX-License-Identifier: Apache-2.0
// How far a run has come, as its checkpoints say it: for people, and so that a resumed run knows the best evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace shoal::app {

/// A loss, and after how many steps it was computed.
struct LossAt {
  std::int64_t step = 0;
  double loss = 0;
};

struct Progress {
  std::optional<double> tokens;    ///< of all steps; nothing after a checkpoint of an older program, which did not count
  std::optional<double> training;  ///< loss of the last step, before its update; nothing if it was not finite
  std::optional<LossAt> validation, best;  ///< the last evaluation, and the one with the lowest loss, the first of equals

  /// Returns true if this is the best evaluation so far. One that is not finite is none.
  bool evaluated(const LossAt& at);
};

/// Numbers of a checkpoint by name, and back. Checkpoints of older programs have none of them.
std::map<std::string, double> numbers_of(const Progress& progress);
Progress progress_of(const std::map<std::string, double>& numbers);

}  // namespace shoal::app
