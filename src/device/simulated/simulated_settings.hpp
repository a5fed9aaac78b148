// SPDX-License-Identifier: Apache-2.0
// In which order the simulated device does its work (include/shoal/device/simulated.hpp).
#pragma once

#include <cstdint>

namespace shoal::device::simulated {

enum class Order : std::uint8_t { in_order, late, drawn };

struct Simulation {
  Order order = Order::late;
  std::uint64_t seed = 0;  ///< of Order::drawn
  std::uint32_t rank = 0;  ///< ranks draw different orders
};

/// Reads SHOAL_SIMULATE, and this process's rank. Fails if SHOAL_SIMULATE is not one of the allowed words.
Simulation simulation_of_environment();

}  // namespace shoal::device::simulated
