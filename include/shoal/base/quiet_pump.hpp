// SPDX-License-Identifier: Apache-2.0
// pump() (base/pump.hpp) for waits that are no sign of life by themselves.
#pragma once

#include "shoal/base/pump.hpp"

namespace shoal {

/// Lets operations in flight advance, unless this thread is absent from MPI. Marks no progress.
inline void quiet_pump() {
  if (detail::pump_function != nullptr && !MpiFree::here()) detail::pump_function();
}

}  // namespace shoal
