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

/// Returns the seconds of the settled steps. A part's first step is not settled, because memory is touched for the first
/// time there. If nodes train locally, neither are the steps of the warm-up, and of the rest of the part only the last whole
/// periods are taken, if there is at least one. So the share of steps that synchronize is that of a long run. A part that
/// lies in the warm-up counts only if no other part goes beyond it, and a part of one or two steps only if there is no
/// longer one. `last_part`: the first step of the last part; 0 if it is not known.
std::vector<double> settled_seconds(const std::vector<StepTime>& steps, std::int64_t last_part,
                                    const sync::SyncOptions& options);

}  // namespace shoal::app
