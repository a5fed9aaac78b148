// SPDX-License-Identifier: Apache-2.0
// In which tier each unit's states wait ([Note: tiers] in base/memory.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// Of one unit.
struct StatePlaces {
  Where optimizer = Where::device;  ///< moments, and masters if parameters have 16 bits
  Where gradients = Where::device;  ///< reduced gradients; memory in any case
  Where params = Where::device;     ///< parameters, which in fp32 are the masters
  bool operator==(const StatePlaces&) const = default;
};

/// By unit. The last units go down, as many as have at most options.optimizer_ratio of the elements that this rank updates.
/// Gradients go down with them where only shards are kept, as far as memory of the host. Parameters go down if they are
/// gathered for each use.
std::vector<StatePlaces> state_places(const OffloadOptions& options, const Stage& stage,
                                      const std::vector<ShardLayout>& layouts);

/// The part of the optimizer's states that is not on the device: elements of those units by all elements.
double offloaded_part(const std::vector<StatePlaces>& places, const std::vector<ShardLayout>& layouts);

}  // namespace shoal::zero
