// SPDX-License-Identifier: Apache-2.0
// The types for which the functions that sum columns are compiled: included last by all implementations.
#pragma once

#include "shoal/kernels/pointwise.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                                                 \
  template void gelu_backward<T>(RowShape, const GeluBackwardInputs<T>&, const GeluBackwardOutputs<T>&, Span<std::byte>); \
  template void column_sum<T>(RowShape, const T*, float*, Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
