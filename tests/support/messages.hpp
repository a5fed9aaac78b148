// SPDX-License-Identifier: Apache-2.0
// What carries the messages of a test of several ranks. The objects of a test are linked with one of two: MPI, on the host
// (messages_by_mpi.cpp), or the double of NCCL, on the simulated device (messages_by_nccl.cpp).
#pragma once

#include "shoal/comm/options.hpp"

namespace shoal::test {

/// The options of the groups of a test. ranks_per_node as in CommOptions.
comm::CommOptions comm_options(int ranks_per_node = 0);

/// Returns run(). With NCCL the host may read and write arenas meanwhile, and if SHOAL_TEST_VECTORS is set, operator new
/// takes memory of an arena: for tests that send what lies in their vectors. Called once, by main().
int with_messages(int (*run)());

}  // namespace shoal::test
