// SPDX-License-Identifier: Apache-2.0
// Turns options into a run: decides everything that must be known before memory is taken, such as the sizes of the model,
// the stages and the shards.
#pragma once

#include <memory>

#include "app/setup/pipeline_setup.hpp"
#include "app/setup/purpose.hpp"
#include "app/setup/rank_layout.hpp"
#include "app/setup/surroundings.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

struct PlannedStages;

struct ResolvedRun {
  config::Options options;  ///< resolved: vocab_size, batch.global and schedule.total_steps are set
  data::Dataset dataset;
  RankLayout division;  ///< of the ranks that the run is planned for
  StagePlan stages;     ///< shape: that of this rank
  zero::EngineOptions engine;
  int threads = 1;                                  ///< of this rank
  plan::MemoryPlan plan;                            ///< of this rank
  std::shared_ptr<const PlannedStages> all_stages;  ///< of the run; without pipelines there is one
};

/// Checks everything that can be checked without training, and plans the memory: a function of its arguments alone, which
/// sends no message and opens no file. found: of a run on `ranks` ranks. bad_input() if the run cannot be.
ResolvedRun resolve(const config::Options& options, Surroundings found, int ranks, Purpose purpose);

/// Collective: with what this rank finds here. ranks: the number of ranks that were started, or another (--ranks N).
ResolvedRun resolve(comm::World& world, const config::Options& options, int ranks, Purpose purpose);

}  // namespace shoal::app
