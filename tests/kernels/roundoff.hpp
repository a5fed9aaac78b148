// SPDX-License-Identifier: Apache-2.0
// What rounding to a type costs at most.
#pragma once

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// Rounding to nearest is off by at most this, relative.
template <typename T>
inline constexpr double roundoff = 0x1p-24;
template <>
inline constexpr double roundoff<bf16> = 0x1p-8;
template <>
inline constexpr double roundoff<f16> = 0x1p-11;
/// And absolute, where numbers are subnormal.
template <typename T>
inline constexpr double subnormal_roundoff = 0.0;
template <>
inline constexpr double subnormal_roundoff<f16> = 0x1p-25;

}  // namespace shoal::kernels
