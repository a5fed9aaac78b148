// SPDX-License-Identifier: Apache-2.0
// A part of a model: units that one rank computes together, and the activations that it keeps for them. A rank of a pipeline
// has one part or several; without a pipeline, one part with all units.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::model {

struct Part {
  Range units;            ///< [begin, end); numbers of units of the whole model
  std::size_t slots = 1;  ///< turns that may be between their forward and their backward pass at the same time
  /// Of these, those that keep all activations. The others keep the inputs of segments alone
  /// (Capacity::checkpoint_interval), and their backward pass computes the rest again.
  std::size_t whole_slots = 1;
};

/// Returns true if one of the parts has this unit.
inline bool has_unit(const std::vector<Part>& parts, std::size_t unit) {
  return std::any_of(parts.begin(), parts.end(),
                     [unit](const Part& part) { return part.units.begin <= unit && unit < part.units.end; });
}

}  // namespace shoal::model
