// SPDX-License-Identifier: Apache-2.0
// The reference for the utilisation of the cores.
#pragma once

#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// GFLOP/s per rank that no training in this number type can exceed (kernels/peak.hpp), measured on all ranks at the same
/// time and averaged over them. If ranks have more threads than cores, only as many threads as cores count. Collective.
double measured_peak(comm::World& world, DType type);

}  // namespace shoal::app
