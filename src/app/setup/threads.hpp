// SPDX-License-Identifier: Apache-2.0
// How many threads a rank computes with.
#pragma once

#include <cstdint>
#include <string>

#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"

namespace shoal::app {

/// Number of threads of this rank: train.threads; if that is auto, the cores that it may use divided by the number of ranks
/// that may use them. OMP_NUM_THREADS, if set, is the upper limit, and so are the threads that kernels can use. Collective
/// over the node.
int choose_threads(comm::World& world, int asked);

/// Number of threads of a rank in a job that gives each rank so many cores, and OMP_NUM_THREADS as many. bad_input() if a
/// rank of the job would refuse train.threads. `option`: the one that says how many cores, as in messages.
int threads_of_job(const config::Invocation& asked, std::uint64_t cores, const std::string& option);

/// Returns the cores that the node's ranks may use, divided by the number of their threads, but at most 1. threads: of this
/// rank. Collective over the node.
double cores_per_thread(comm::World& world, int threads);

}  // namespace shoal::app
