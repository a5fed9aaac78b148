// SPDX-License-Identifier: Apache-2.0
// The memory that a run will take, found by running the code that takes it on a Memory that only counts.
#pragma once

#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

struct MemoryPlan {
  Ledger bytes;
  std::vector<Memory::Entry> parts;  ///< bytes summed by kind and label, the largest first
};

/// Takes from the same memory what a run needs in addition to its engine.
using ExtraAllocations = std::function<void(zero::Engine& engine, Memory& memory)>;

/// The plan of rank `rank` of `ranks` that reduce gradients together. In a pipeline these are the ranks of one stage, whose
/// parts of the model are options.parts.
MemoryPlan memory(const zero::EngineOptions& options, int rank, int ranks, const ExtraAllocations& extra = {});

}  // namespace shoal::plan
