// SPDX-License-Identifier: Apache-2.0
// The types that layernorm_forward and layernorm_recompute are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/layernorm.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                                     \
  template void layernorm_forward<T>(RowShape, float, const LayerNormInputs<T>&, const LayerNormOutputs<T>&); \
  template void layernorm_recompute<T>(RowShape, const LayerNormInputs<T>&, const LayerNormStatistics&, T*);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
