// SPDX-License-Identifier: Apache-2.0
// The types that kernels are compiled for. A source that defines the template add() has SHOAL_FOR_TYPES(add); at its end,
// which compiles it for all of them. decltype() copies the parameters from the template's declaration.
#pragma once

#include "shoal/base/types.hpp"

#define SHOAL_INSTANCE(function, ...) template decltype(function<__VA_ARGS__>) function<__VA_ARGS__>

#define SHOAL_FOR_TYPES(function)  \
  SHOAL_INSTANCE(function, float); \
  SHOAL_INSTANCE(function, bf16);  \
  SHOAL_INSTANCE(function, f16)

/// Of the factors of a matrix product, and of its result.
#define SHOAL_FOR_PRODUCT_TYPES(function) \
  SHOAL_INSTANCE(function, float, float); \
  SHOAL_INSTANCE(function, bf16, bf16);   \
  SHOAL_INSTANCE(function, bf16, float);  \
  SHOAL_INSTANCE(function, f16, f16);     \
  SHOAL_INSTANCE(function, f16, float)

/// From a type, and to a type.
#define SHOAL_FOR_CONVERSIONS(function)  \
  SHOAL_INSTANCE(function, float, bf16); \
  SHOAL_INSTANCE(function, float, f16);  \
  SHOAL_INSTANCE(function, bf16, float); \
  SHOAL_INSTANCE(function, f16, float)
