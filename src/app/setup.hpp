// SPDX-License-Identifier: Apache-2.0
// Everything that is decided before memory is taken: the data, the model's sizes, the threads, the groups of ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "division.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/pipeline/runner.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/sync/synchroniser.hpp"
#include "shoal/zero/engine.hpp"
#include "stages.hpp"

namespace shoal::app {

struct PlannedStages;

struct Setup {
  config::Options options;  ///< resolved: vocab_size, batch.global and schedule.total_steps are set
  data::Dataset dataset;
  Division division;  ///< of the ranks that the setup is for
  StagePlan stages;   ///< shape: that of this rank
  zero::EngineOptions engine;
  int threads = 1;                                  ///< of this rank
  plan::MemoryPlan plan;                            ///< of this rank
  std::shared_ptr<const PlannedStages> all_stages;  ///< of the run; without pipelines there is one
};

/// The purpose for which a model is set up.
enum class Purpose {
  train,
  evaluate,  ///< data and one forward pass
  generate,  ///< the data's vocabulary, and memory for decoding one sequence
  weights,   ///< no data: export
};

/// Opens the data, checks everything that can be checked without training, and plans the memory. ranks: the number of ranks
/// that were started, or another (--ranks N).
Setup prepare(comm::World& world, const config::Options& options, int ranks, Purpose purpose);

/// The squares of gradients that AdaScale needs.
zero::Squares measured_squares(const config::Options& options);

/// The engine options that follow from resolved options, for the ranks that reduce gradients at every step. parts is not
/// set.
zero::EngineOptions engine_options(const config::Options& options, const Division& division, Purpose purpose);
/// Micro-batches of a pipeline, or of a rank without pipelines, in a step.
std::size_t turns_of(const zero::EngineOptions& engine, const Division& division);

/// The memory that data-parallel rank `rank` of stage stages.shape.stage takes in addition to its engine, for its plan.
plan::ExtraAllocations extra_allocations(const config::Options& options, const Division& division, const StagePlan& stages,
                                         Purpose purpose, int rank = 0);

/// The engine, the synchroniser and their memory.
struct Machine {
  /// Collective.
  Machine(const Setup& setup, comm::World& world);
  sync::NodeGroups groups;
  device::DeviceMemory memory;
  zero::Engine engine;
  pipeline::Runner runner;
  std::optional<sync::Synchroniser> synchroniser;  ///< if sync.kind is not every_step
};

}  // namespace shoal::app
