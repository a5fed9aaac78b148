// SPDX-License-Identifier: Apache-2.0
// The optimizer's fused pass on a GPU: the arithmetic of kernels/optimizer.hpp, on device memory. Not called by a training
// run yet: the arenas of a run are host memory.
#pragma once

#include <cstddef>

#include "shoal/kernels/optimizer.hpp"

namespace shoal::kernels::cuda {

/// GPUs that this process can use; 0 without a driver.
int device_count();

/// kernels::adamw on device pointers, on the default stream; returns when the launch is queued. fail() with CUDA's own words
/// where it cannot be.
void adamw(std::size_t n, const AdamWStep& step, const float* gradient, float* master, float* first, float* second,
           bf16* parameters);

}  // namespace shoal::kernels::cuda
