// SPDX-License-Identifier: Apache-2.0
// The usual ways to cut elementwise work and work on rows into tiles.
#pragma once

#include <algorithm>
#include <cstddef>

#include "for_each.hpp"

namespace shoal::kernels {

/// Elements of a tile: enough to make the launch cheap, little enough that threads share small tensors evenly.
inline constexpr std::size_t tile_elements = 16384;

/// body(begin, count) for each tile of n elements.
template <class Body>
void for_elements(const char* label, std::size_t n, const Body& body) {
  for_tiles(label, (n + tile_elements - 1) / tile_elements, [n, &body](std::size_t tile) {
    const std::size_t begin = tile * tile_elements;
    body(begin, std::min(tile_elements, n - begin));
  });
}

/// body(row) for each of the rows, which are C wide.
template <class Body>
void for_rows(const char* label, std::size_t rows, std::size_t C, const Body& body) {
  const std::size_t per_tile = std::max<std::size_t>(1, tile_elements / std::max<std::size_t>(1, C));
  for_tiles(label, (rows + per_tile - 1) / per_tile, [=, &body](std::size_t tile) {
    const std::size_t end = std::min(rows, (tile + 1) * per_tile);
    for (std::size_t row = tile * per_tile; row < end; ++row) body(row);
  });
}

}  // namespace shoal::kernels
