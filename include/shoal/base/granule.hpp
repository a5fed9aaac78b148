// SPDX-License-Identifier: Apache-2.0
// The granule: 256 consecutive elements of a flat buffer. Shards are whole granules, and a sum over a buffer is made of one
// sum per granule, so it has the same bits however the buffer is divided among ranks.
#pragma once

#include <cstddef>

namespace shoal {

inline constexpr std::size_t granule = 256;

}  // namespace shoal
