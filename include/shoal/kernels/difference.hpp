// SPDX-License-Identifier: Apache-2.0
// Differences from a base that sender and receiver share, in which nodes send parameters with fewer bits.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// subtract(): difference = x - base, rounded to the type. add_to_base(): x = base + difference / divisor. In both,
/// operands in fp32 may be the same.
void subtract(DType type, std::size_t n, const float* x, const float* base, void* difference);
void add_to_base(DType type, std::size_t n, const float* base, const void* difference, float divisor, float* x);

}  // namespace shoal::kernels
