// SPDX-License-Identifier: Apache-2.0
// The settled steps of a run: those over which its speed is taken. The run names them and their times in summary.json;
// `shoal study` and the scripts in analysis/ read them there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "shoal/io/lineage.hpp"
#include "shoal/sync/options.hpp"

namespace shoal::app {

struct StepTime {
  std::int64_t step = 0;
  double seconds = 0;
};

/// Returns the settled ones of these steps, which are in ascending order. A part's first step is not settled, because memory
/// is touched for the first time there. If nodes train locally, neither are the steps of the warm-up, and of the rest of the
/// part only the last whole periods are taken, if there is at least one. So the share of steps that synchronize is that of a
/// long run. A part that lies in the warm-up counts only if no other part goes beyond it, and a part of one or two steps
/// only if there is no longer one. A part begins after each step at which an ancestor of the run was left.
std::vector<StepTime> settled_of(const std::vector<StepTime>& steps, const std::vector<io::Ancestor>& ancestors,
                                 const sync::SyncOptions& options);

/// {"steps": [[first, last], ...] (ranges of settled steps), "period" (number of steps after which the pattern of
/// synchronizations repeats; 1 if every step is the same), "step_s": {median, mean, min, max} (null if there is none)}.
nlohmann::ordered_json settled_json(const std::vector<StepTime>& settled, const sync::SyncOptions& options);

}  // namespace shoal::app
