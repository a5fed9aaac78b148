// SPDX-License-Identifier: Apache-2.0
// The results of `shoal plan` as tables and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/plan/plan_time.hpp"
#include "app/setup/stage_rows.hpp"
#include "shoal/plan/deepspeed_estimate.hpp"
#include "shoal/plan/memory.hpp"

namespace shoal::app {

/// One stage and checkpoint interval on one number of ranks, with the bytes of rank 0.
struct PlannedRun {
  int ranks = 1;
  std::size_t micro = 1, global = 1;  ///< sequences
  int stage = 0;
  std::int64_t checkpoint_interval = 0;  ///< as in model::ActivationOptions
  bool asked = false;                    ///< stage and interval are the deck's own
  std::string refused;                   ///< why such a run would be refused; then nothing below is set
  plan::MemoryPlan plan;                 ///< with pipelines: of the stage that takes most
  std::vector<StageRow> stages;          ///< with pipelines
  std::string cost_of_turns;             ///< cost_of_turns(), if this is the deck's own
  std::string does_not_fit;              ///< with pipelines and a limit: the error text of such a run, if it does not fit
  Ledger paper;                          ///< without pipelines: model states by the formula of the ZeRO paper
  std::optional<std::size_t> layers;     ///< without pipelines: the most layers that fit into PlanReport::limit
  std::size_t parameters_then = 0;       ///< number of parameters of the model with this many layers
};

/// DeepSpeed's own estimate for one way to run it.
struct DeepSpeedRow {
  int ranks, stage;
  plan::DeepSpeedCluster cluster;
  plan::DeepSpeedZero3 how;  ///< offload_param and zero_init are of stage 3
  plan::DeepSpeedEstimate estimate;
};

struct PlanReport {
  std::string deck, dtype, reduce_dtype, optimizer;
  std::size_t parameters = 0, n_layer = 0;
  std::optional<std::size_t> limit;     ///< bytes per rank
  std::vector<PlannedRun> runs;         ///< by ranks, checkpointing, stage
  std::vector<PredictedRun> predicted;  ///< with --network: by ranks, strategy
  std::vector<DeepSpeedRow> deepspeed;
  std::vector<std::string> notes;
  std::string time_source, arithmetic;  ///< with --network: the sources of the step times, for the table's head
};

void print_plan_report(const PlanReport& report);
/// Prints "# NAME: refused: PROBLEM" for each line of refused, which has one problem per line.
void print_refused(const std::string& name, const std::string& refused);
void write_plan_json(const PlanReport& report, const std::filesystem::path& file);

}  // namespace shoal::app
