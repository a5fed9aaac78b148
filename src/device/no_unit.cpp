// SPDX-License-Identifier: Apache-2.0
// Devices whose arenas are memory of the host have no units to choose from.
#include <limits>

#include "shoal/device/unit.hpp"

namespace shoal::device {

namespace {
bool messages_reach = true;
}

Unit open(const RankPlace& place) {
  messages_reach = place.messages_reach_arenas;
  return {};
}
bool messages_reach_arenas() { return messages_reach; }

const Unit& unit() {
  static const Unit none;
  return none;
}

std::size_t free_bytes() { return std::numeric_limits<std::size_t>::max(); }
std::size_t bytes_of_others() { return 0; }

}  // namespace shoal::device
