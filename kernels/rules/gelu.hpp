// SPDX-License-Identifier: Apache-2.0
// GELU by its tanh formula, as GPT-2 uses it (Hendrycks and Gimpel, "Gaussian error linear units", 2016).
#pragma once

#include <type_traits>

#include "kernels/rules/functions.hpp"

namespace shoal::kernels::rules {

// gelu(u) = u (1 + tanh z) / 2 with z = c (u + k u^3), and (1 + tanh z) / 2 = 1 / (1 + e^-2z). The latter form needs one
// exponential and loses no digits if tanh z is near -1.
inline constexpr float gelu_c2 = 1.5957691216057308F;  // 2 c = 2 sqrt(2 / pi)
inline constexpr float gelu_k = 0.044715F;

template <class V>
struct Gate {
  V decay;  ///< e^-2z
  V open;   ///< 1 / (1 + e^-2z); gelu(u) = u open
};

/// As accurate as results of type T: bf16's roundoff is 2^-8.
template <typename T, class V>
SHOAL_RULE Gate<V> gelu_gate(V u) {
  using N = Number<V>;
  if constexpr (std::is_same_v<T, bf16>) {
    const V decay = rough_exp2(u * N::fma(u * u, N::of(-gelu_c2 * gelu_k * log2e), N::of(-gelu_c2 * log2e)));
    return {decay, N::rough_reciprocal(1.0F + decay)};
  } else {
    const V decay = exp(u * N::fma(u * u, N::of(-gelu_c2 * gelu_k), N::of(-gelu_c2)));
    return {decay, 1.0F / (1.0F + decay)};
  }
}

/// Derivative of g = gelu(u): s + g (1 - s) 2 z', with s = at.open, 1 - s = at.decay s, and z' = dz/du.
template <class V>
SHOAL_RULE V gelu_slope(V u, V g, const Gate<V>& at) {
  using N = Number<V>;
  constexpr float largest = 0x1p127F;  // so that decay s is 0 and not inf * 0 for u far below zero
  const V shut = N::min(N::of(largest), at.decay) * at.open;
  return N::fma(g * shut, N::fma(u * u, N::of(3.0F * gelu_c2 * gelu_k), N::of(gelu_c2)), at.open);
}

}  // namespace shoal::kernels::rules
