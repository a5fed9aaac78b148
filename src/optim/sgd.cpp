// SPDX-License-Identifier: Apache-2.0
#include "sgd.hpp"

#include "shoal/kernels/optimizer.hpp"
#include "slice_check.hpp"

namespace shoal::optim {

Sgd::Sgd(const OptimizerOptions& options)
    : momentum_(options.momentum), weight_decay_(options.weight_decay), nesterov_(options.nesterov) {
  require_input(!nesterov_ || momentum_ > 0, "optimizer.nesterov = true needs optimizer.momentum > 0, not ", momentum_);
}

std::vector<std::string> Sgd::moment_names() const {
  if (momentum_ == 0) return {};
  return {"first"};
}

void Sgd::step(const Slice& slice, const Step& step) const {
  const bool buffered = momentum_ != 0;
  check(slice, buffered ? 1 : 0, "SGD");
  kernels::SgdStep rule{};
  rule.learning_rate = static_cast<float>(step.learning_rate);
  rule.momentum = static_cast<float>(momentum_);
  rule.weight_decay = slice.decay ? static_cast<float>(weight_decay_) : 0.0F;
  rule.nesterov = nesterov_;
  rule.first_step = step.number == 1;
  rule.gradient_scale = step.gradient_scale;
  kernels::sgd(slice.master.size(), rule, slice.gradient.data(),
               {.master = slice.master.data(), .buffer = buffered ? slice.moments[0].data() : nullptr},
               {.type = slice.dtype, .data = rounded_copy(slice)});
}

}  // namespace shoal::optim
