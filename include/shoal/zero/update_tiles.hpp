// SPDX-License-Identifier: Apache-2.0
// The tiles of an update: the parts of this rank's shards that the optimizer goes through, one after another.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/base/types.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

/// A part of a unit that is updated at a time: all that this rank updates of it, or a tile of it if kernels do not reach
/// some of its states.
struct Tile {
  int unit = 0;
  Range elements;  ///< of the unit's flat buffer, within ShardLayout::optimizer
  bool moved = false;
};
inline constexpr std::size_t tile_elements = std::size_t{1} << 18U;  // a disk wants requests of 1 MiB

/// All tiles, in their order. moved: by unit, whether kernels do not reach some of its states. A unit that is not moved is
/// one tile, and so keeps the addresses and calls of a run without tiers.
std::vector<Tile> update_tiles(const std::vector<ShardLayout>& layouts, const std::vector<bool>& moved);

}  // namespace shoal::zero
