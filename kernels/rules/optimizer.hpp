// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD for one parameter. The formulas are those of include/shoal/kernels/optimizer.hpp.
#pragma once

#include <cmath>

#include "kernels/rules/number.hpp"
#include "shoal/kernels/optimizer.hpp"

namespace shoal::kernels::rules {

/// The constants of a step, rounded to float.
struct AdamWConstants {
  float gradient_scale, keep, beta1, beta2, gain1, gain2, rate, root, epsilon;

  /// Differences from 1 are taken before rounding: 1 - 0.999F is wrong in the fifth digit.
  explicit AdamWConstants(const AdamWStep& step)
      : gradient_scale(static_cast<float>(step.gradient_scale)),
        keep(static_cast<float>(1.0 - step.learning_rate * step.weight_decay)),
        beta1(static_cast<float>(step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        gain1(static_cast<float>(1.0 - step.beta1)),
        gain2(static_cast<float>(1.0 - step.beta2)),
        rate(static_cast<float>(-step.learning_rate / step.correction1)),
        root(static_cast<float>(1.0 / std::sqrt(step.correction2))),
        epsilon(static_cast<float>(step.epsilon)) {}
};

/// Updates the parameter p and its moments m and v.
template <class V>
SHOAL_RULE void adamw(const AdamWConstants& c, V gradient, V& p, V& m, V& v) {
  using N = Number<V>;
  const V g = gradient * c.gradient_scale;
  m = N::fma(N::of(c.beta1), m, g * c.gain1);
  v = N::fma(N::of(c.beta2), v, g * g * c.gain2);
  const V direction = m / N::fma(N::sqrt(v), N::of(c.root), N::of(c.epsilon));
  p = N::fma(N::of(c.rate), direction, p * c.keep);
}

/// SGD without momentum.
template <class V>
SHOAL_RULE void sgd(const SgdStep& step, V gradient, V& p) {
  using N = Number<V>;
  const V g = N::fma(N::of(step.weight_decay), p, gradient * step.gradient_scale);
  p = N::fma(N::of(-step.learning_rate), g, p);
}

/// SGD with momentum. In the first step the moment before it is not used.
template <class V>
SHOAL_RULE void sgd(const SgdStep& step, V gradient, V& p, V& moment) {
  using N = Number<V>;
  const V g = N::fma(N::of(step.weight_decay), p, gradient * step.gradient_scale);
  moment = step.first_step ? g : N::fma(N::of(step.momentum), moment, g);
  const V direction = step.nesterov ? N::fma(N::of(step.momentum), moment, g) : moment;
  p = N::fma(N::of(-step.learning_rate), direction, p);
}

}  // namespace shoal::kernels::rules
