// SPDX-License-Identifier: Apache-2.0
// The order in which the sum of a row is added, on every device: element i belongs to chain i mod 64. Each chain is added
// from its first element to its last, starting from zero. Then the 64 sums are added in pairs whose numbers differ by 16,
// then by 32, 8, 4, 2 and 1. (A chain is a lane of one of four vectors of sixteen floats, or a thread of a GPU.)
#pragma once

#include <cstddef>

#include "kernels/rules/number.hpp"

namespace shoal::kernels::rules {

inline constexpr std::size_t chains = 64;

/// Adds sixteen sums in pairs whose numbers differ by 8, then by 4, 2 and 1. Overwrites them. Sums in double, and the dot
/// products of attention, have sixteen chains.
inline constexpr std::size_t few_chains = 16;
template <typename N>
SHOAL_FUNCTION N join_few_chains(N* sums) {
  for (std::size_t distance = few_chains / 2; distance > 0; distance /= 2) {
    for (std::size_t l = 0; l < distance; ++l) sums[l] += sums[l + distance];
  }
  return sums[0];
}

/// Adds the 64 sums; the order is the one above. Overwrites them.
SHOAL_FUNCTION float join_chains(float* sums) {
  for (std::size_t l = 0; l < 16; ++l) sums[l] = (sums[l] + sums[l + 16]) + (sums[l + 32] + sums[l + 48]);
  return join_few_chains(sums);
}

}  // namespace shoal::kernels::rules
