// SPDX-License-Identifier: Apache-2.0
// The types that matmul's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/matmul.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T, R)                                                                      \
  template void matmul<T, R>(const char*, const MatmulInputs<T, R>&, Matrix<R>, Span<std::byte>); \
  template std::size_t matmul_workspace_bytes<T, R>(const MatmulShape&);
SHOAL_INSTANCE(float, float)
SHOAL_INSTANCE(bf16, bf16)
SHOAL_INSTANCE(bf16, float)
SHOAL_INSTANCE(f16, f16)
SHOAL_INSTANCE(f16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
