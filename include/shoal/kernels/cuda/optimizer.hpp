// SPDX-License-Identifier: Apache-2.0
// The optimizer's fused pass on a GPU: the arithmetic of kernels/optimizer.hpp, on device memory. Training does not call it
// yet, as its arenas are in host memory.
#pragma once

#include <cstddef>

#include "shoal/kernels/optimizer.hpp"

namespace shoal::kernels::cuda {

/// Number of GPUs that this process can use; 0 without a driver.
int device_count();

/// kernels::adamw() on device pointers, on the default stream. Returns when the launch is queued; fails with CUDA's error
/// text if it cannot be.
void adamw(std::size_t n, const AdamWStep& step, const float* gradient, const AdamWState& state, bf16* parameters);

}  // namespace shoal::kernels::cuda
