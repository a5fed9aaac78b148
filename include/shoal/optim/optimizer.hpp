// SPDX-License-Identifier: Apache-2.0
// Update rules on one slice. They know neither ranks nor units: a slice may be a whole unit or one rank's shard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal::optim {

/// optimizer.kind. A new optimizer is a value and a row here, a case in make() and a pair of files.
enum class OptimizerKind : std::uint8_t { adamw, sgd };
inline constexpr std::array optimizer_kinds = {Named{OptimizerKind::adamw, "adamw"}, Named{OptimizerKind::sgd, "sgd"}};
constexpr const auto& table_of(OptimizerKind) { return optimizer_kinds; }

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< adamw
  double weight_decay = 0.1;
  bool decay_1d = false;  ///< decay biases and norms too
  double momentum = 0.9;  ///< sgd
  bool nesterov = false;  ///< sgd
};

/// A contiguous piece of a unit whose tensors share one weight decay.
struct Slice {
  Span<const float> gradient;
  Span<float> master;          ///< fp32 parameters
  Span<std::byte> parameters;  ///< their copy rounded to dtype; empty where the model computes in fp32
  DType dtype = DType::f32;
  std::vector<Span<float>> moments;  ///< moment_names().size() of them
  bool decay = true;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the states that it keeps per parameter: {"first", "second"}, {"first"} or {}: /moments/NAME in a checkpoint.
  virtual std::vector<std::string> moment_names() const = 0;
  /// step counts from 1. gradient_scale multiplies the gradient first. beta1, beta2 as the schedule has them this step.
  struct Step {
    std::int64_t number;
    double learning_rate, beta1, beta2;
    float gradient_scale;
  };
  virtual void step(const Slice& slice, const Step& step) const = 0;
};

std::unique_ptr<Optimizer> make(const OptimizerOptions& options);

}  // namespace shoal::optim
