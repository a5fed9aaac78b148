// SPDX-License-Identifier: Apache-2.0
// The stages of a pipeline in the results of `shoal plan` and --dry-run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/setup/stage_rows.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

struct PlanInputs;

/// If gradients are reduced for each micro-batch (stages 2 and 3 of ZeRO): the bytes that this costs, beside those of
/// stage 1, as a sentence. Otherwise empty.
std::string cost_of_turns(const PlanInputs& inputs, const config::Options& options);

nlohmann::ordered_json json_of(const std::vector<StageRow>& rows);

}  // namespace shoal::app
