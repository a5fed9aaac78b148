// SPDX-License-Identifier: Apache-2.0
// What the model's arithmetic is held against.
#pragma once

#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::app {

/// GFLOP/s that no training in this number type can exceed, of an average rank: measured on the threads of all ranks at a
/// time (kernels/peak.hpp), of which no more count than there are cores. Collective.
double measured_peak(comm::World& world, DType type);

}  // namespace shoal::app
