// SPDX-License-Identifier: Apache-2.0
// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
#pragma once

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

class AdamW : public Optimizer {
 public:
  explicit AdamW(const OptimizerOptions& options) : epsilon_(options.epsilon), weight_decay_(options.weight_decay) {}
  std::vector<std::string> moment_names() const override { return {"first", "second"}; }
  void step(const Slice& slice, const Step& step) const override;

 private:
  double epsilon_, weight_decay_;
};

}  // namespace shoal::optim
