// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum, also in Nesterov's form, as in PyTorch: the momentum buffer is not multiplied
// by the learning rate.
#pragma once

#include "shoal/optim/optimizer.hpp"

namespace shoal::optim {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options);
  std::vector<std::string> moment_names() const override;
  void step(const Slice& slice, const Step& step) const override;

 private:
  double momentum_, weight_decay_;
  bool nesterov_;
};

}  // namespace shoal::optim
