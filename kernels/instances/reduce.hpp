// SPDX-License-Identifier: Apache-2.0
// The types that reduce's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/reduce.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T) template void sum_of_squares_by_granule<T>(std::size_t, const T*, double*);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
