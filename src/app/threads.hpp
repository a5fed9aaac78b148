// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Threads of this rank: train.threads, or (auto) the cores it may use divided by the ranks that share them; OMP_NUM_THREADS
/// is the upper limit where it is set. Collective over the node.
int choose_threads(comm::World& world, int asked);

/// 1, or less where the threads of this node's ranks, of which this rank has so many, are more than the cores that they may
/// use. Collective over the node.
double cores_per_thread(comm::World& world, int threads);

}  // namespace shoal::app
