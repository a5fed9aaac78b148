// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/update_tiles.hpp"

namespace shoal::zero {

std::vector<Tile> update_tiles(const std::vector<ShardLayout>& layouts, const std::vector<bool>& moved) {
  std::vector<Tile> tiles;
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const Range own = layouts[u].optimizer;
    const std::size_t most = moved[u] ? tile_elements : own.size();
    for (std::size_t begin = own.begin; begin < own.end; begin += most) {
      tiles.push_back({static_cast<int>(u), intersection(own, {begin, begin + most}), moved[u]});
    }
  }
  return tiles;
}

}  // namespace shoal::zero
