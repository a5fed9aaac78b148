// SPDX-License-Identifier: Apache-2.0
// In which tier each unit's states wait ([Note: tiers] in base/memory.hpp), and the tiles in which those that kernels do not
// reach come to memory.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::zero {

/// Of one unit.
struct StatePlaces {
  Where optimizer = Where::device;  ///< moments, and masters if parameters have 16 bits
  Where gradients = Where::device;  ///< reduced gradients; memory in any case
  bool operator==(const StatePlaces&) const = default;
};

/// By unit. The last units go down, as many as have at most options.optimizer_ratio of the elements that this rank updates.
/// Gradients go down with them where only shards are kept, as far as memory of the host.
std::vector<StatePlaces> state_places(const OffloadOptions& options, const Stage& stage,
                                      const std::vector<ShardLayout>& layouts);

/// The part of the optimizer's states that is not on the device: elements of those units by all elements.
double offloaded_part(const std::vector<StatePlaces>& places, const std::vector<ShardLayout>& layouts);

inline constexpr std::size_t tile_elements = std::size_t{1} << 18U;  // a disk wants requests of 1 MiB

/// All tiles of an update, in their order. moved: by unit, whether kernels do not reach some of its states. A unit that is
/// not moved is one tile, and so keeps the addresses and calls of a run without tiers.
std::vector<Tile> update_tiles(const std::vector<ShardLayout>& layouts, const std::vector<bool>& moved);

}  // namespace shoal::zero
