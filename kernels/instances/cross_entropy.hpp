// SPDX-License-Identifier: Apache-2.0
// The types that cross_entropy's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/cross_entropy.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T) \
  template void cross_entropy<T>(RowShape, const CrossEntropyInputs&, float, const CrossEntropyOutputs<T>&);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
