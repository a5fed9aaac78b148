// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::model {

/// Number of layers of a segment (src/model/segments.hpp) for activation.checkpoint_interval = interval: the activations of
/// this many layers are in memory at the same time, and backward computes those of all other layers again.
std::size_t segment_length(std::size_t layers, std::int64_t interval);

/// Operations of forward that backward computes again, for one sequence. layers: those of a part, as units in `costs`.
/// last_kept: the activations of the last segment are in memory when backward begins.
double repeated_flops(const std::vector<UnitCost>& costs, Range layers, std::int64_t interval, bool last_kept);

}  // namespace shoal::model
