// SPDX-License-Identifier: Apache-2.0
// Optimizer updates: one fused pass over a flat slice. The rule is elementwise, so a slice may be a whole unit or a shard.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// AdamW (Loshchilov and Hutter 2019), as torch has it:
///   g = gradient * gradient_scale; p *= 1 - lr * decay; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
///   p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + epsilon)
struct AdamWStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double correction1, correction2;  ///< 1 - beta1^t, 1 - beta2^t
  double gradient_scale;            ///< clipping and loss scale in one factor
};
/// master, first, second are updated; parameters, where not null, receive the masters rounded to the type.
void adamw(std::size_t n, const AdamWStep& step, const float* gradient, float* master, float* first, float* second,
           DType type, void* parameters);

/// SGD as torch has it: g = gradient * gradient_scale + decay * p; buf = first_step ? g : momentum * buf + g;
/// p -= lr * (nesterov ? g + momentum * buf : buf). Without momentum, buffer is null and buf = g.
struct SgdStep {
  float learning_rate, momentum, weight_decay;
  bool nesterov, first_step;
  float gradient_scale;
};
void sgd(std::size_t n, const SgdStep& step, const float* gradient, float* master, float* buffer, DType type,
         void* parameters);

}  // namespace shoal::kernels
