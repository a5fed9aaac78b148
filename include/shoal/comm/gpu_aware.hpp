// SPDX-License-Identifier: Apache-2.0
// Whether the MPI library reads and writes arenas.
#pragma once

namespace shoal::comm {

/// What SHOAL_GPU_AWARE_MPI says (0 or 1; fails if it is anything else). Otherwise true if arenas are memory of the host, as
/// the simulated device's are, and on GPUs what the MPI library says of itself, which is false if it has no function for
/// that (MPIX_Query_cuda_support).
bool gpu_aware();

}  // namespace shoal::comm
