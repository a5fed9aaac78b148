// SPDX-License-Identifier: Apache-2.0
// The types that dropout's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/dropout.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                         \
  template void dropout_add<T>(const Dropout&, std::size_t, std::size_t, const T*, const T*, T*); \
  template void dropout_backward<T>(const Dropout&, std::size_t, std::size_t, const T*, T*);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
