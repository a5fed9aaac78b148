// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/optimizer.hpp"

#include <cmath>

#include "loops.hpp"
#include "simd.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
using simd::fma;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

/// Calls rule(i, part, p) for each vector p of master parameters, from element i on, which updates p. Stores p and, if
/// wanted, its rounded copy. (The rule does not return p: how such a vector is returned depends on the size of the
/// registers.)
template <class Rule>
void update(const char* label, std::size_t n, float* master, const RoundedParameters& parameters, const Rule& rule) {
  dispatch(parameters.type, [=]<typename T>(T) {
    auto* const rounded = static_cast<T*>(parameters.data);
    for_elements(label, n, [=](std::size_t begin, std::size_t count) {
      for_vectors(count, [=](std::size_t offset, auto part) {
        const std::size_t i = begin + offset;
        Floats p = load(master + i, part);
        rule(i, part, p);
        store(master + i, p, part);
        if (rounded != nullptr) store(rounded + i, p, part);
      });
    });
  });
}

}  // namespace

void adamw(std::size_t n, const AdamWStep& step, const float* gradient, const AdamWState& state,
           const RoundedParameters& rounded) {
  // Differences from 1 are taken before rounding to float: 1 - 0.999F is wrong in the fifth digit.
  const auto gradient_scale = static_cast<float>(step.gradient_scale);
  const auto keep = static_cast<float>(1.0 - step.learning_rate * step.weight_decay);
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto gain1 = static_cast<float>(1.0 - step.beta1);
  const auto gain2 = static_cast<float>(1.0 - step.beta2);
  const auto rate = static_cast<float>(-step.learning_rate / step.correction1);
  const auto root = static_cast<float>(1.0 / std::sqrt(step.correction2));
  const auto epsilon = static_cast<float>(step.epsilon);
  float *const first = state.first, *const second = state.second;
  update("adamw", n, state.master, rounded, [=](std::size_t i, auto part, Floats& p) {
    const Floats g = load(gradient + i, part) * gradient_scale;
    const Floats m = fma(broadcast(beta1), load(first + i, part), g * gain1);
    const Floats v = fma(broadcast(beta2), load(second + i, part), g * g * gain2);
    const Floats direction = m / fma(simd::sqrt(v), broadcast(root), broadcast(epsilon));
    store(first + i, m, part);
    store(second + i, v, part);
    p = fma(broadcast(rate), direction, p * keep);
  });
}

void sgd(std::size_t n, const SgdStep& step, const float* gradient, const SgdState& state,
         const RoundedParameters& rounded) {
  float* const buffer = state.buffer;
  update("sgd", n, state.master, rounded, [=](std::size_t i, auto part, Floats& p) {
    const Floats g = fma(broadcast(step.weight_decay), p, load(gradient + i, part) * step.gradient_scale);
    Floats direction = g;
    if (buffer != nullptr) {
      const Floats moment = step.first_step ? g : fma(broadcast(step.momentum), load(buffer + i, part), g);
      store(buffer + i, moment, part);
      direction = step.nesterov ? fma(broadcast(step.momentum), moment, g) : moment;
    }
    p = fma(broadcast(-step.learning_rate), direction, p);
  });
}

}  // namespace shoal::kernels
