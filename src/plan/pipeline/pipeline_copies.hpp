// SPDX-License-Identifier: Apache-2.0
// What the ends of a pipeline send each other of copied units (zero/tied_copies.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// By data-parallel rank: each rank of the last stage sends its shard of the gradient, and the first one's rank with the
/// same number what it updates.
struct CopyBytes {
  std::vector<std::size_t> gradient, parameters;
};
/// An entry for each copy of a unit.
std::vector<CopyBytes> copies_of(const zero::EngineOptions& options, int data_ranks);

}  // namespace shoal::plan
