// SPDX-License-Identifier: Apache-2.0
// Adapts a deck's options to numbers of ranks that it was not written for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/setup/stage_memory.hpp"
#include "shoal/config/options.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/plan/pipeline_step.hpp"

namespace shoal::app {

/// Options that are valid for `ranks`. Options that do not fit are replaced: a batch.global that cannot be divided among
/// these ranks by batch.micro x ranks, a comm.ranks_per_node or sync.nprocs_per_node that does not divide `ranks` by one
/// node, a zero.hpz_size that does not divide them by off.
struct Resolved {
  config::Invocation run;
  bool batch_replaced = false;  ///< batch.global was
  /// Of the other replaced options those that are for fewer ranks than these: "zero.hpz_size = 2".
  std::vector<std::string> dropped;
};

Resolved resolved(config::Invocation asked, int ranks);

/// What the memory of a training run on `ranks` ranks, `on_node` of them on a node of the machine, is planned from:
/// arguments of plan::memory(), of the stage of a pipeline that takes most. The options are resolved, model.vocab_size
/// included. limit: bytes that a rank may take, which decides on pipeline.balance = auto (plan_stages()).
struct PlanInputs {
  zero::EngineOptions engine;
  int sync_group_size = 1;
  plan::ExtraAllocations extra;
  RankLayout division;
  PlannedStages stages;
  /// The plan of these inputs.
  const plan::MemoryPlan& memory() const { return stages.memory[stages.largest]; }
};
PlanInputs plan_inputs(const config::Options& options, int ranks, int on_node, const std::optional<std::size_t>& limit);
/// The pipelines of these inputs.
plan::PipelinePlan pipeline_plan(const PlanInputs& inputs, const config::Options& options);
/// memory_problem() of the stages of these inputs.
std::string memory_problem(const PlanInputs& inputs, const config::Options& options, std::size_t limit);

}  // namespace shoal::app
