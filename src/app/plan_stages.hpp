// SPDX-License-Identifier: Apache-2.0
// The stages of a pipeline in the results of `shoal plan` and --dry-run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shoal/base/types.hpp"
#include "stage_memory.hpp"

namespace shoal::app {

struct PlanInputs;
struct PlanReport;

struct StageRow {
  std::vector<Range> units;  ///< by part
  Ledger bytes;              ///< of a rank
  bool largest = false;
};
std::vector<StageRow> stage_rows(const PlannedStages& planned);

/// A table of the stages: a line each. first: the first character of its lines.
void print_stages(const std::vector<StageRow>& rows, char first);

/// If gradients are reduced for each micro-batch (stages 2 and 3 of ZeRO): the bytes that this costs, beside those of
/// stage 1, as a sentence. Otherwise empty.
std::string cost_of_turns(const PlanInputs& inputs, const config::Options& options);

bool is_pipeline(const PlanReport& report);
/// For each number of ranks, the stages of the deck's own run, and what to change if they do not fit.
void print_stages(const PlanReport& report);
nlohmann::ordered_json json_of(const std::vector<StageRow>& rows);

}  // namespace shoal::app
