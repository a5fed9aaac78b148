// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). A number depends on its key and counter only, not on the rank or thread that computes it, nor on earlier calls.
// So dropout, initial weights and sample order are the same on any ranks and threads, and if a layer is recomputed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal {

using Philox4 = std::array<std::uint32_t, 4>;

/// Returns the four 32-bit random numbers of (key, counter).
SHOAL_FUNCTION Philox4 philox(std::uint64_t key, Philox4 counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// A uniform number in (0, 1], made from the upper 24 bits.
SHOAL_FUNCTION float uniform(std::uint32_t bits) { return static_cast<float>((bits >> 8U) + 1U) * 0x1p-24F; }

/// Two standard normal numbers, computed in double from two uniform ones (Box and Muller 1958).
inline std::array<double, 2> box_muller(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(a) + 1.0) * 0x1p-32));
  const double angle = 6.283185307179586 * (static_cast<double>(b) * 0x1p-32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace shoal
