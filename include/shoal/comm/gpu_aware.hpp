// SPDX-License-Identifier: Apache-2.0
// Which calls of the MPI library read and write arenas.
#pragma once

#include "shoal/device/unit.hpp"

namespace shoal::comm {

/// What SHOAL_GPU_AWARE_MPI says: 0 (nothing), messages or 1 (collectives, too); fails if it is anything else. Otherwise all
/// calls if arenas are memory of the host, as the simulated device's are, and on GPUs what the MPI library says of itself,
/// which is nothing if it has no function for that (MPIX_Query_cuda_support). With Open MPI it is messages at most: all
/// collectives here are non-blocking, and those are what Open MPI, by its documentation, does not support on a GPU's memory.
device::Reach gpu_aware();

}  // namespace shoal::comm
