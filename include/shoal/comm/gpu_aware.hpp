// SPDX-License-Identifier: Apache-2.0
// Which calls of the MPI library read and write arenas.
#pragma once

#include "shoal/device/unit.hpp"

namespace shoal::comm {

/// Returns what SHOAL_GPU_AWARE_MPI says: 0 (nothing), messages, or 1 (collectives, too); fails if it is anything else.
/// Without the variable all calls reach arenas that are memory of the host, as the simulated device's are. On GPUs it is
/// what the MPI library says of itself (MPIX_Query_cuda_support), and nothing if it has no such function. Open MPI's answer
/// is taken to be about messages alone: all collectives here are non-blocking, and its documentation says that those do not
/// take a GPU's memory.
device::Reach gpu_aware();

}  // namespace shoal::comm
