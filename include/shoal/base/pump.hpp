// SPDX-License-Identifier: Apache-2.0
// Non-blocking communication makes progress only while MPI is called. So code that computes calls pump() between kernels and
// in long loops, and comm/ installs the function that pump() calls. Neither side depends on the other.
#pragma once

#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"

namespace shoal {

using PumpFunction = void (*)();

/// Installs the function that pump() calls; nullptr: none. comm/ installs one while operations are in flight, or while other
/// ranks may ask whether this one is alive.
void set_pump(PumpFunction function);

namespace detail {
extern PumpFunction pump_function;
}
/// Marks progress (a heartbeat) and lets operations in flight advance, unless this thread is absent from MPI
/// (base/mpi_free.hpp). Costs about 25 ns, for reading the clock, if nothing is in flight.
inline void pump() {
  heartbeat::beat();
  if (detail::pump_function != nullptr && !MpiFree::here()) detail::pump_function();
}

}  // namespace shoal
