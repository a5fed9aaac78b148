// SPDX-License-Identifier: Apache-2.0
// Which elements of a flat buffer belong to which rank. This index arithmetic is the same for training, planning and
// checkpoints.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shoal/base/granule.hpp"
#include "shoal/base/types.hpp"

namespace shoal::zero {

constexpr std::size_t granule_count(std::size_t elements) { return (elements + granule - 1) / granule; }

/// Number of elements of every shard but the last ones, which may be shorter or empty.
constexpr std::size_t shard_length(std::size_t elements, int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  return (granule_count(elements) + size - 1) / size * granule;
}

/// The elements of a flat buffer that `rank` keeps: whole granules, except at the buffer's end.
constexpr Range shard_of(std::size_t elements, int rank, int ranks) {
  const std::size_t length = shard_length(elements, ranks);
  const std::size_t begin = std::min(elements, length * static_cast<std::size_t>(rank));
  return {begin, std::min(elements, begin + length)};
}
static_assert(shard_of(1000, 3, 4) == Range{768, 1000});
static_assert(shard_of(1000, 0, 1) == Range{0, 1000});
static_assert(shard_of(300, 3, 4).empty());

}  // namespace shoal::zero
