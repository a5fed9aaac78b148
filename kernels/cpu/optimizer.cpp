// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/optimizer.hpp"

#include "kernels/cpu/vectors/loops.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/rules/optimizer.hpp"

namespace shoal::kernels {

using simd::Floats;
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
  const rules::AdamWConstants constants(step);
  float *const first = state.first, *const second = state.second;
  update("adamw", n, state.master, rounded, [=](std::size_t i, auto part, Floats& p) {
    Floats m = load(first + i, part), v = load(second + i, part);
    rules::adamw(constants, load(gradient + i, part), p, m, v);
    store(first + i, m, part);
    store(second + i, v, part);
  });
}

void sgd(std::size_t n, const SgdStep& step, const float* gradient, const SgdState& state,
         const RoundedParameters& rounded) {
  float* const buffer = state.buffer;
  update("sgd", n, state.master, rounded, [=](std::size_t i, auto part, Floats& p) {
    const Floats g = load(gradient + i, part);
    if (buffer == nullptr) return rules::sgd(step, g, p);
    Floats moment = load(buffer + i, part);
    rules::sgd(step, g, p, moment);
    store(buffer + i, moment, part);
  });
}

}  // namespace shoal::kernels
