// SPDX-License-Identifier: Apache-2.0
// Which calls read and write arenas: of the MPI library, and of the library that sends arenas in a run.
#pragma once

#include "shoal/comm/options.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::comm {

/// Returns what SHOAL_GPU_AWARE_MPI says: 0 (nothing), messages, or 1 (collectives, too); fails if it is anything else.
/// Without the variable all calls reach arenas that are memory of the host, as the simulated device's are. On GPUs it is
/// what the MPI library says of itself (MPIX_Query_cuda_support), and nothing if it has no such function. Open MPI's answer
/// is taken to be about messages alone: all collectives here are non-blocking, and its documentation says that those do not
/// take a GPU's memory.
device::Reach gpu_aware();

/// Returns true if NCCL, or what stands for it in tests, sends arenas with these options. MPI sends all other messages.
bool sends_by_nccl(const CommOptions& options);
/// Which calls of the library that sends arenas with these options reach them: all of NCCL's, and those of gpu_aware(). All
/// if arenas are memory of the host. Needs no GPU, so that memory can be planned without one.
device::Reach reach_of(const CommOptions& options);

}  // namespace shoal::comm
