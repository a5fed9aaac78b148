// SPDX-License-Identifier: Apache-2.0
// What fits into a rank's memory, found by planning it.
#pragma once

#include <cstddef>
#include <string>

#include "shoal/plan/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// A sentence that says why a run on `ranks` ranks does not fit into `limit` bytes per rank, naming the largest parts and
/// the cheapest way to make it fit with the bytes that it takes then; empty if it fits. It speaks of rank 0, which keeps the
/// most, and so says the same on all ranks.
std::string why_too_large(const zero::EngineOptions& options, int ranks, std::size_t limit,
                          const ExtraAllocations& further = {});

/// Where deepest() ends its search: several times as deep as any GPT in use.
inline constexpr std::size_t most_layers = 512;

/// The most layers (model.n_layer, all else as in `options`) with which rank 0 of `ranks` takes no more than `limit` bytes;
/// one more does not fit, or would be more than most_layers. 0: not even one.
std::size_t deepest(const zero::EngineOptions& options, int ranks, std::size_t limit, const ExtraAllocations& further = {});

}  // namespace shoal::plan
