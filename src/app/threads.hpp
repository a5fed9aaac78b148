// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Threads of this rank: train.threads, or (auto) the cores it may use divided by the ranks that share them; OMP_NUM_THREADS
/// is the upper limit where it is set. Collective over the node.
int choose_threads(comm::World& world, int asked);

}  // namespace shoal::app
