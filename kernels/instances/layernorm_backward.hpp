// SPDX-License-Identifier: Apache-2.0
// The types that layernorm_backward is made for: included last by both implementations.
#pragma once

#include "shoal/kernels/layernorm.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                                        \
  template void layernorm_backward<T>(RowShape, const LayerNormBackwardInputs<T>&, const LayerNormGradients<T>&, \
                                      Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
