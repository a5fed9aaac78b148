// SPDX-License-Identifier: Apache-2.0
// Filling and copying memory.
#pragma once

#include <cstddef>

namespace shoal::kernels {

/// x[i] = value for all n elements.
void fill(std::size_t n, float value, float* x);
/// The two must not overlap.
void copy_bytes(std::size_t bytes, const void* from, void* to);

}  // namespace shoal::kernels
