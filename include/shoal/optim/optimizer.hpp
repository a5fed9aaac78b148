// SPDX-License-Identifier: Apache-2.0
// Update rules for one slice. They do not know ranks or units: a slice may be a whole unit or the shard of one rank.
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
  bool decay_1d = false;  ///< apply the weight decay to biases and layer norms too
  double momentum = 0.9;  ///< sgd
  bool nesterov = false;  ///< sgd
};

/// A contiguous part of a unit whose tensors have the same weight decay.
struct Slice {
  Span<const float> gradient;
  Span<float> master;          ///< fp32 parameters
  Span<std::byte> parameters;  ///< the master parameters rounded to dtype; empty if the model computes in fp32
  DType dtype = DType::f32;
  std::vector<Span<float>> moments;  ///< moment_names().size() of them
  bool decay = true;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the states that the optimizer keeps per parameter: {"first", "second"}, {"first"} or {}. A checkpoint stores
  /// them as /moments/NAME.
  virtual std::vector<std::string> moment_names() const = 0;
  /// number: the step, counted from 1. learning_rate, beta1 and beta2 are those of the schedule for this step. The gradient
  /// is multiplied by gradient_scale first.
  struct Step {
    std::int64_t number;
    double learning_rate, beta1, beta2;
    float gradient_scale;
  };
  virtual void step(const Slice& slice, const Step& step) const = 0;
};

std::unique_ptr<Optimizer> make(const OptimizerOptions& options);

}  // namespace shoal::optim
