// SPDX-License-Identifier: Apache-2.0
// Everything that is decided before memory is taken: the data, the model's sizes, the threads, who computes what.
#pragma once

#include <memory>
#include <string>

#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

struct Setup {
  config::Options options;  ///< resolved: vocab_size, batch.global, schedule.total_steps are set
  data::Dataset dataset;
  zero::EngineOptions engine;
  int ranks = 1;          ///< data-parallel ranks that it is made for
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

/// The engine options that follow from resolved options. ranks_per_node: 0 where nodes differ.
zero::EngineOptions engine_options(const config::Options& options, int ranks, int ranks_per_node, Purpose purpose);

/// Threads of this rank: train.threads, or (auto) the cores it may use divided by the ranks that share them; OMP_NUM_THREADS
/// is the upper limit where it is set. Collective over the node.
int choose_threads(comm::World& world, int asked);

/// Memory and an Engine in it, for the ranks that run.
struct Machine {
  Machine(const Setup& setup, comm::World& world);
  Memory memory;
  zero::Engine engine;
};

}  // namespace shoal::app
