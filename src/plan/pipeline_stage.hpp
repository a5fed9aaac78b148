// SPDX-License-Identifier: Apache-2.0
// What the ranks of one stage of a pipeline compute and exchange in a step: for the estimate of its time and for the trace
// of a simulator.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/pipeline/timeline.hpp"
#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/step_messages.hpp"

namespace shoal::plan {

/// The reductions and gathers of a stage among its data-parallel ranks.
struct StageReductions {
  zero::EngineOptions options;           ///< of the stage's engine
  std::vector<model::UnitLayout> units;  ///< of the whole model
  zero::AccumulationPlan accumulation;
  StepMessages messages;
  double optimizer_elements = 0;  ///< that its first rank updates
};
/// options: the engine's of all stages. data_ranks: of a stage.
StageReductions stage_reductions(const zero::EngineOptions& options, const PipelinePlan& plan, std::size_t stage,
                                 int data_ranks, const CollectiveCosts& collectives, const Cluster& cluster);

/// Seconds of a unit's passes for one turn, by unit. whole_s: both passes of the whole model for one turn.
std::vector<pipeline::PassTimes> unit_times(const zero::EngineOptions& options, const PipelinePlan& plan, double whole_s);

/// What the last stage and the first one send each other of a copied unit (zero/copies.hpp), by data-parallel rank: each
/// rank of the last stage its shard of the gradient, and the first one's rank with the same number what it updates.
struct CopyBytes {
  std::vector<std::size_t> gradient, parameters;
};
/// An entry for each copy of a unit.
std::vector<CopyBytes> copies_of(const zero::EngineOptions& options, int data_ranks);

}  // namespace shoal::plan
