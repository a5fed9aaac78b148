// SPDX-License-Identifier: Apache-2.0
// Kernels do not run when they are launched, so there is nothing that the host could record: devices time them
// (include/shoal/device/timing.hpp).
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

void connect_trace() {}

}  // namespace shoal::kernels
