// SPDX-License-Identifier: Apache-2.0
// Layer normalization (Ba, Kiros, Hinton 2016) of one element, given the mean of its row and rstd = 1 / sqrt(variance +
// epsilon).
#pragma once

#include "kernels/rules/number.hpp"

namespace shoal::kernels::rules {

template <class V>
SHOAL_RULE V normalized(V x, float mean, float rstd) {
  return (x - mean) * rstd;
}

template <class V>
SHOAL_RULE V layernorm(V x, float mean, float rstd, V gain, V bias) {
  return Number<V>::fma(normalized(x, mean, rstd), gain, bias);
}

/// dx = rstd (d - mean(d) - h mean(d h)), where h is the normalized element and d = dy gain.
template <class V>
SHOAL_RULE V layernorm_slope(V h, V d, float mean_d, float mean_dh, float rstd) {
  using N = Number<V>;
  return N::fma(h, N::of(-mean_dh), d - mean_d) * rstd;
}

}  // namespace shoal::kernels::rules
