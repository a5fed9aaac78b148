// SPDX-License-Identifier: Apache-2.0
#include "adamw.hpp"

#include <cmath>

#include "shoal/kernels/optimizer.hpp"
#include "slice_check.hpp"

namespace shoal::optim {

void AdamW::step(const Slice& slice, const Step& step) const {
  check(slice, 2, "AdamW");
  const auto t = static_cast<double>(step.number);
  kernels::AdamWStep rule{};
  rule.learning_rate = step.learning_rate;
  rule.beta1 = step.beta1;
  rule.beta2 = step.beta2;
  rule.epsilon = epsilon_;
  rule.weight_decay = slice.decay ? weight_decay_ : 0.0;
  // In double: in float, 1 - 0.999^1 is wrong in the fifth digit.
  rule.correction1 = 1.0 - std::pow(step.beta1, t);
  rule.correction2 = 1.0 - std::pow(step.beta2, t);
  rule.gradient_scale = step.gradient_scale;
  kernels::adamw(slice.master.size(), rule, slice.gradient.data(),
                 {.master = slice.master.data(), .first = slice.moments[0].data(), .second = slice.moments[1].data()},
                 {.type = slice.dtype, .data = rounded_copy(slice)});
}

}  // namespace shoal::optim
