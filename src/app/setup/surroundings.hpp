// SPDX-License-Identifier: Apache-2.0
// What a run finds where it starts: its data, its place among the ranks, threads and memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/setup/purpose.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/data/tokens.hpp"
#include "shoal/plan/node_memory.hpp"

namespace shoal::app {

/// Of this rank. If the run is planned for another number of ranks than were started, this rank stands for the first of
/// them, all of which are on one node.
struct Surroundings {
  data::Dataset dataset;             ///< empty with Purpose::weights
  int rank = 0;                      ///< among all ranks
  int on_node = 1;                   ///< ranks of its node
  plan::MemoryShare host;            ///< the part of its host's memory that this rank may take
  int threads = 1;                   ///< with which it computes
  std::optional<std::size_t> limit;  ///< bytes that each rank may take, the same on all; none on GPUs without memory.limit
  std::string limited_by;            ///< what sets this limit, the same on all; empty: memory.limit
};

/// Collective. Opens the data and sets the number of threads. bad_input() if this program or these nodes cannot do what
/// options ask for. ranks: the number of ranks that were started, or another (--ranks N).
Surroundings surroundings(comm::World& world, const config::Options& options, int ranks, Purpose purpose);

}  // namespace shoal::app
