// SPDX-License-Identifier: Apache-2.0
// Everything that is decided before memory is taken: the data, the model's sizes, the threads, who computes what.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "division.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/sync/synchroniser.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

struct Setup {
  config::Options options;  ///< resolved: vocab_size, batch.global, schedule.total_steps are set
  data::Dataset dataset;
  zero::EngineOptions engine;
  Division division;      ///< of the ranks that it is made for
  int threads = 1;        ///< of this rank
  plan::MemoryPlan plan;  ///< of this rank
};

/// What a model is set up for.
enum class Purpose {
  train,
  evaluate,  ///< data and one forward pass
  generate,  ///< data for its vocabulary, and memory for one sequence's decoder
  weights,   ///< no data: export
};

/// Opens the data, checks everything that can be checked without training, and plans the memory. `ranks`: those started, or
/// others (--ranks N).
Setup prepare(comm::World& world, const config::Options& options, int ranks, Purpose purpose);

/// What AdaScale needs to be measured of gradients.
zero::Squares measured_squares(const config::Options& options);

/// The engine options that follow from resolved options; its group is the ranks in step.
zero::EngineOptions engine_options(const config::Options& options, const Division& division, Purpose purpose);

/// What a training run takes besides its engine, of rank `rank`: for its plan.
plan::ExtraAllocations extra_allocations(const config::Options& options, int rank, int ranks, int sync_group_size);

/// Memory and an Engine in it, for the ranks that run.
struct Machine {
  Machine(const Setup& setup, comm::World& world);
  sync::NodeGroups place;
  Memory memory;
  zero::Engine engine;
  std::optional<sync::Synchroniser> synchroniser;  ///< where sync.kind is not every_step
};

}  // namespace shoal::app
