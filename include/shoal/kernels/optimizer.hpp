// SPDX-License-Identifier: Apache-2.0
// Optimizer updates: one fused pass over n elements. Each element is updated on its own, so the n elements may be a whole
// unit or a shard.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// AdamW (Loshchilov and Hutter 2019), as in PyTorch:
///   g = gradient * gradient_scale; p *= 1 - lr * decay; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
///   p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + epsilon)
struct AdamWStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double correction1, correction2;  ///< 1 - beta1^t, 1 - beta2^t
  double gradient_scale;            ///< the product of the factors for clipping and loss scaling
};
/// The numbers that a step updates.
struct AdamWState {
  float* master;  ///< p
  float* first;   ///< m
  float* second;  ///< v
};
/// The copy of the parameters that the model uses: the updated master parameters, rounded to the type. Null: none.
struct RoundedParameters {
  DType type = DType::f32;
  void* data = nullptr;
};
void adamw(std::size_t n, const AdamWStep& step, const float* gradient, const AdamWState& state,
           const RoundedParameters& rounded);

/// SGD as in PyTorch:
///   g = gradient * gradient_scale + decay * p; buf = first_step ? g : momentum * buf + g;
///   p -= lr * (nesterov ? g + momentum * buf : buf)
/// Without momentum, buf = g.
struct SgdStep {
  float learning_rate, momentum, weight_decay;
  bool nesterov, first_step;
  float gradient_scale;
};
struct SgdState {
  float* master;  ///< p
  float* buffer;  ///< buf; null without momentum
};
void sgd(std::size_t n, const SgdStep& step, const float* gradient, const SgdState& state, const RoundedParameters& rounded);

}  // namespace shoal::kernels
