// SPDX-License-Identifier: Apache-2.0
// Finds what fits into the memory of a rank, by planning the memory of one run after another.
#pragma once

#include <cstddef>
#include <string>

#include "shoal/plan/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// "the run needs 8 MiB per rank, and a rank may take 5 MiB; largest: ...": the first part of such texts.
std::string excess_text(const MemoryPlan& plan, std::size_t limit);

/// What more nodes do: shard the states among more ranks, or train a copy of their own.
enum class MoreNodes { shard_further, train_locally };

/// Returns an error text if a run on `ranks` ranks does not fit into `limit` bytes per rank: it names the largest buffers,
/// the cheapest change that makes the run fit, and the bytes needed then. Returns an empty text if the run fits. It plans
/// rank 0, which needs the most memory, so the text is the same on all ranks.
std::string memory_problem(const zero::EngineOptions& options, int ranks, std::size_t limit,
                           const ExtraAllocations& extra = {}, MoreNodes more_nodes = MoreNodes::shard_further);

/// The largest depth that max_layers_that_fit() tries: several times the depth of any GPT in use.
inline constexpr std::size_t most_layers = 512;

/// Returns the largest model.n_layer, up to most_layers, with which rank 0 of `ranks` takes at most `limit` bytes; all other
/// options are those of `options`. 0: not even one layer fits.
std::size_t max_layers_that_fit(const zero::EngineOptions& options, int ranks, std::size_t limit,
                                const ExtraAllocations& extra = {});

}  // namespace shoal::plan
