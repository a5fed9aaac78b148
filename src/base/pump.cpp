// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/pump.hpp"

namespace shoal {

namespace detail {
PumpFunction pump_function = nullptr;
}

void set_pump(PumpFunction function) { detail::pump_function = function; }

}  // namespace shoal
