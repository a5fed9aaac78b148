// SPDX-License-Identifier: Apache-2.0
// The types that embedding_backward() is made for: included last by both implementations.
#pragma once

#include "shoal/kernels/embedding.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T) \
  template void embedding_backward<T>(const EmbeddingShape&, const std::int32_t*, const T*, const EmbeddingGradients&);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
