// SPDX-License-Identifier: Apache-2.0
// Averages and outer steps for one parameter. The formulas are those of include/shoal/kernels/outer.hpp.
#pragma once

#include "kernels/rules/number.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::kernels::rules {

template <class V>
SHOAL_RULE V average(V x, V other) {
  return (x + other) * 0.5F;
}

template <class V>
SHOAL_RULE V average_with_stale(V x, V other, V before) {
  using N = Number<V>;
  return N::fma(other - before, N::of(0.5F), x);
}

template <class V>
SHOAL_RULE V rebased(V x, V mean, V before) {
  return mean + (x - before);
}

/// Updates the outer parameter and its momentum u, where x is the parameter after the local steps.
template <class V>
SHOAL_RULE void slow_momentum(const OuterStep& step, V x, V& outer, V& u) {
  using N = Number<V>;
  u = N::fma(N::of(step.momentum), u, (outer - x) / N::of(step.inner_rate));
  outer = N::fma(N::of(-step.rate * step.inner_rate), u, outer);
}

template <class V>
SHOAL_RULE void outer_nesterov(const OuterStep& step, V x, V& outer, V& u) {
  using N = Number<V>;
  const V difference = outer - x;
  u = N::fma(N::of(step.momentum), u, difference);
  outer = N::fma(N::of(-step.rate), N::fma(N::of(step.momentum), u, difference), outer);
}

}  // namespace shoal::kernels::rules
