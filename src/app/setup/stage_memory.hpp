// SPDX-License-Identifier: Apache-2.0
// The memory of every stage of a pipeline, the balance under which all stages fit, and what to change if none does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/setup/pipeline_setup.hpp"
#include "app/setup/purpose.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/plan/memory.hpp"

namespace shoal::app {

/// A run without pipelines has one stage.
struct PlannedStages {
  zero::EngineOptions engine;            ///< of all stages; parts are not set
  StagePlan stages;                      ///< shape: that of the largest stage
  std::string balance;                   ///< pipeline.balance; in place of auto, what was chosen
  std::vector<plan::MemoryPlan> memory;  ///< by stage: of its data-parallel rank 0
  std::size_t largest = 0;               ///< the stage whose ranks take most
  std::size_t bytes() const { return memory[largest].bytes.total(); }
  /// The options of the engine of a stage.
  zero::EngineOptions engine_of(std::size_t stage) const;
};

/// Plans all stages. limit: bytes that a rank may take, which balance = auto respects if a cut that does exists; none: any.
/// options: resolved.
PlannedStages plan_stages(const config::Options& options, const RankLayout& division, Purpose purpose,
                          const std::optional<std::size_t>& limit);

/// The options with the number of layers of each part in place of pipeline.balance = auto: the least largest cost among the
/// cuts whose stages all fit under the limit. If none does, or there is no limit: the least largest cost. With several parts
/// per stage, only cuts are considered in which a stage would also fit if all its parts had as many layers as the largest
/// one; from the one found, layers are moved to other parts as long as this shortens the simulated step of a training
/// (pipeline::shortened()) and all stages still fit.
config::Options with_balance(const config::Options& options, const RankLayout& division, Purpose purpose,
                             const std::optional<std::size_t>& limit);

/// An error text if a stage takes more than the limit: its bytes, and the cheapest change under which all stages fit. Empty
/// if all do. planned: from plan_stages() with these options. A run without pipelines has other changes
/// (plan::memory_problem()).
std::string memory_problem(const PlannedStages& planned, const config::Options& options, const RankLayout& division,
                           Purpose purpose, std::size_t limit);

}  // namespace shoal::app
