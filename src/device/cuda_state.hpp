// SPDX-License-Identifier: Apache-2.0
// What the parts of the CUDA device share.
#pragma once

#include <cuda_runtime_api.h>

#include "shoal/device/unit.hpp"

namespace shoal::device::cuda {

/// Fails unless the call has succeeded, with one line that names the call, its error and the GPU.
void check(cudaError_t status, const char* call);

/// Makes the queues, when the GPU is chosen.
void start_queues();
/// Whether open() has chosen a GPU, and messages_reach_arenas of its place.
bool is_open();
bool messages_reach_arenas();

}  // namespace shoal::device::cuda
