// SPDX-License-Identifier: Apache-2.0
// Non-blocking communication moves only when MPI is entered. So whoever computes calls pump() between kernels and in long
// loops, and whoever communicates installs what is to be done there; neither knows the other.
#pragma once

#include "shoal/base/absence.hpp"
#include "shoal/base/heartbeat.hpp"

namespace shoal {

using PumpFunction = void (*)();

/// nullptr: nothing to do. Installed by comm/ while operations are open or other ranks may ask whether this one is alive.
void set_pump(PumpFunction function);

namespace detail {
extern PumpFunction pump_function;
}
/// Who computes is alive (a beat), and lets open operations make progress, unless this thread is absent from MPI
/// (base/absence.hpp). Costs reading a clock, some 25 ns, when there is nothing to move.
inline void pump() {
  heartbeat::beat();
  if (detail::pump_function != nullptr && !Absence::here()) detail::pump_function();
}

}  // namespace shoal
