// SPDX-License-Identifier: Apache-2.0
// The settled steps of a run, over which the study takes the mean time of a step. analysis/run_options.py and run_parts.py
// have the same rule, so that a study and the scripts give a run one speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "shoal/sync/options.hpp"

namespace shoal::app {

struct StepTime {
  std::int64_t step = 0;
  double seconds = 0;
};

/// What metrics.jsonl has: the steps of all parts of a run, also of those that wrote no summary.
struct RunMetrics {
  std::vector<StepTime> steps;
  std::optional<double> final_loss;  ///< none: there is no step, or the loss was not finite
};
/// bad_input() names the first line that is not a run's (FILE:LINE).
RunMetrics read_metrics(const std::filesystem::path& metrics);

/// Seconds of the settled steps. The first step of a part is left out, since it touches its memory for the first time. Where
/// nodes train locally, the warm-up is left out too, and the last whole periods of the part count, if there is one: so that
/// the share of steps that synchronize is that of a long run. Parts that lie in the warm-up are left out beside one that
/// goes beyond it, and parts of two steps or fewer beside longer ones. `last_part`: the first step of the last part; 0 if it
/// is not known.
std::vector<double> settled_seconds(const std::vector<StepTime>& steps, std::int64_t last_part,
                                    const sync::SyncOptions& options);

}  // namespace shoal::app
