// SPDX-License-Identifier: Apache-2.0
// When the parameters of each unit are gathered and released in a pass through the model, and where they lie meanwhile. The
// order in which a pass visits units is known beforehand (model::visits), so all of this is decided before the first step:
// no trace of an earlier pass is needed, and the memory is known to the byte.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shoal/zero/options.hpp"

namespace shoal::zero {

/// The units of every visit, first to last.
using UseOrder = std::vector<std::vector<int>>;

/// A unit's parameters are whole on this rank from one visit to another.
struct GatherLifetime {
  int unit;
  std::size_t first, last;  ///< visits that use it
  std::size_t start;        ///< the gather is started at the beginning of this visit
  std::size_t offset = 0;   ///< in bytes, in the memory of gathered parameters
};

struct GatherPlan {
  UseOrder visits;
  std::vector<GatherLifetime> gather_lifetimes;  ///< in the order in which their gathers start
  std::size_t bytes = 0;                         ///< memory for all
};

/// bytes_of[u]: of the whole unit u; 0 where it is not gathered. A unit's gather starts when the one that is
/// options.prefetch_units places before it in the order of first uses is first used, later where options.max_live_mb leaves
/// no room. Between two uses it is released, unless its next gather would start at once, or until its last use where
/// options.reshard_after_forward is off. A limit too small for the units that are used together is refused (bad_input,
/// naming `names` of the units).
GatherPlan plan_gathers(const UseOrder& visits, const std::vector<std::size_t>& bytes_of,
                        const std::vector<std::string>& names, const ZeroOptions& options);

}  // namespace shoal::zero
