// SPDX-License-Identifier: Apache-2.0
// Changes of a run that need less memory, to be named if the run does not fit.
#pragma once

#include <string>
#include <vector>

#include "shoal/plan/fit.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

struct Change {
  zero::EngineOptions options;
  int ranks;
  std::string description;  ///< the changed options, as in a deck
};

/// Returns changes in the order of their cost:
/// 1. stage 1, which sends no more bytes;
/// 2. activation checkpointing, which computes up to a third more (long segments recompute less than short ones);
/// 3. stages 2 and 3, which send more; then both;
/// 4. more ranks, unless more nodes train locally, alone and then with those of the changes above that save most;
/// 5. a smaller micro-batch, which is slower and changes the order of sums; likewise.
std::vector<Change> memory_savings(const zero::EngineOptions& options, int ranks, MoreNodes more_nodes);

}  // namespace shoal::plan
