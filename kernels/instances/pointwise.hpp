// SPDX-License-Identifier: Apache-2.0
// The types that pointwise's functions are made for: included last by both implementations.
#pragma once

#include "shoal/kernels/pointwise.hpp"

namespace shoal::kernels {

#define SHOAL_INSTANCE(T)                                   \
  template void gelu_forward<T>(std::size_t, const T*, T*); \
  template void add<T>(std::size_t, const T*, T*);          \
  template void relu_forward<T>(std::size_t, T*);           \
  template void relu_backward<T>(std::size_t, const T*, const T*, T*);
SHOAL_INSTANCE(float)
SHOAL_INSTANCE(bf16)
SHOAL_INSTANCE(f16)
#undef SHOAL_INSTANCE

#define SHOAL_INSTANCE(From, To) template void convert<From, To>(std::size_t, const From*, To*);
SHOAL_INSTANCE(float, bf16)
SHOAL_INSTANCE(float, f16)
SHOAL_INSTANCE(bf16, float)
SHOAL_INSTANCE(f16, float)
#undef SHOAL_INSTANCE

}  // namespace shoal::kernels
