// SPDX-License-Identifier: Apache-2.0
// shoal study --simulate: predicts every point by a replay with SimGrid instead of running it. simulation.json in the
// study's directory:
//   format (shoal-simulation), deck, network, platform
//   points [{name, strategy, scalings, nodes, ranks_per_node, ranks, tokens_per_step, planned_step_s (of `shoal plan`),
//     step_s, tokens_per_s (both simulated), processes, trace_bytes (of the largest replay), replay_s (of all)}]
#pragma once

#include <optional>
#include <vector>

#include "app/plan/plan_time.hpp"
#include "app/study/point.hpp"

namespace shoal::app {

std::vector<config::CommandSpec::Own> simulation_options();
/// Returns true with --simulate. bad_input() if an option of it is given without it.
bool simulates(const config::Invocation& study);

/// Prints a line for each point as soon as it is simulated, and writes simulation.json after each. Of repeated points only
/// the first is simulated. bad_input() without study.network.
void simulate_study(const config::Invocation& study, const std::vector<StudyPoint>& points,
                    const std::optional<TimeModel>& times);

}  // namespace shoal::app
