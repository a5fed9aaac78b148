// SPDX-License-Identifier: Apache-2.0
// The largest errors of rounding to a type.
#pragma once

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The largest relative error of rounding to nearest.
template <typename T>
inline constexpr double roundoff = 0x1p-24;
template <>
inline constexpr double roundoff<bf16> = 0x1p-8;
template <>
inline constexpr double roundoff<f16> = 0x1p-11;
/// The largest absolute error for subnormal numbers.
template <typename T>
inline constexpr double subnormal_roundoff = 0.0;
template <>
inline constexpr double subnormal_roundoff<f16> = 0x1p-25;

}  // namespace shoal::kernels
