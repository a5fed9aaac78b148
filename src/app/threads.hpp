// SPDX-License-Identifier: Apache-2.0
// How many threads a rank computes with.
#pragma once

#include "shoal/comm/world.hpp"

namespace shoal::app {

/// Number of threads of this rank: train.threads; if that is auto, the cores that it may use divided by the number of ranks
/// that may use them. OMP_NUM_THREADS, if set, is the upper limit, and so are the threads that kernels can use. Collective
/// over the node.
int choose_threads(comm::World& world, int asked);

/// Returns the cores that the node's ranks may use, divided by the number of their threads, but at most 1. threads: of this
/// rank. Collective over the node.
double cores_per_thread(comm::World& world, int threads);

}  // namespace shoal::app
