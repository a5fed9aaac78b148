// SPDX-License-Identifier: Apache-2.0
// The types that attention_decode's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/attention.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T) template void attention_decode<T>(std::size_t, std::size_t, const T*, const KeyValueCache<T>&, T*);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
