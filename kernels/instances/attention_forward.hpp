// SPDX-License-Identifier: Apache-2.0
// The types that attention_forward's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/attention.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                                         \
  template std::vector<std::string> prepare_attention<T>(const AttentionShape&, bool);                            \
  template void attention_forward<T>(const AttentionShape&, const T*, const AttentionOutputs<T>&, const Dropout&, \
                                     Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
