// SPDX-License-Identifier: Apache-2.0
// The types that attention_backward's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/attention.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                                                                           \
  template std::size_t attention_workspace_bytes<T>(const AttentionShape&);                                         \
  template void attention_backward<T>(const AttentionShape&, const AttentionBackwardInputs<T>&, T*, const Dropout&, \
                                      Span<std::byte>);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
