// SPDX-License-Identifier: Apache-2.0
// What the parts of the CUDA device share.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <optional>

#include "shoal/device/queue.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::device::cuda {

/// Fails unless the call has succeeded, with one line that names the call, its error and the GPU.
void check(cudaError_t status, const char* call);

/// Bytes of the GPU's memory that are free before this process has used it; none if that cannot be known.
std::optional<std::uint64_t> free_before_use(const std::array<std::uint8_t, 16>& identity);

/// Makes the queues, when the GPU is chosen.
void start_queues();
cudaStream_t stream_of(Queue queue);
/// Shows the regions of the trace to NVIDIA's profilers.
void show_regions();
/// Whether open() has chosen a GPU.
bool is_open();

}  // namespace shoal::device::cuda
