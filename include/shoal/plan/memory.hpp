// SPDX-License-Identifier: Apache-2.0
// What a run will take, found by running the code that takes it on memory that only counts.
#pragma once

#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

struct MemoryPlan {
  Ledger bytes;
  std::vector<Memory::Entry> parts;  ///< by kind and label, summed; the largest first
};

/// What a run takes besides its engine, from the same memory.
using ExtraAllocations = std::function<void(zero::Engine& engine, Memory& memory)>;

/// Of rank `rank` of `ranks`.
MemoryPlan memory(const zero::EngineOptions& options, int rank, int ranks, const ExtraAllocations& further = {});

/// Bytes that one rank may take: memory.limit where set, else what the node has, divided by the ranks on it.
std::size_t available_bytes(double limit_gib, int ranks_on_node);

}  // namespace shoal::plan
