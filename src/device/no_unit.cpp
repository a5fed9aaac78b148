// SPDX-License-Identifier: Apache-2.0
// Devices whose arenas are memory of the host have no units to choose from.
#include <limits>

#include "shoal/device/taken.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::device {

namespace {
Reach given = Reach::collectives;
}

Unit open(const RankPlace& place) {
  given = place.reach;
  return {};
}
Reach reach() { return given; }

const Unit& unit() {
  static const Unit none;
  return none;
}

std::size_t free_bytes() { return std::numeric_limits<std::size_t>::max(); }
std::optional<std::uint64_t> unit_free_bytes() { return std::nullopt; }

}  // namespace shoal::device
