// SPDX-License-Identifier: Apache-2.0
// Non-blocking communication moves only when MPI is entered. So whoever computes calls pump() between kernels, and whoever
// communicates installs what is to be done there; neither knows the other.
#pragma once

namespace shoal {

using PumpFunction = void (*)();

/// nullptr: nothing to do. Installed by comm/ while operations are open.
void set_pump(PumpFunction function);

namespace detail {
extern PumpFunction pump_function;
}
/// Lets open operations make progress. Costs one test when there are none.
inline void pump() {
  if (detail::pump_function != nullptr) detail::pump_function();
}

}  // namespace shoal
