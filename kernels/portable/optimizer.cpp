// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/optimizer.hpp"

#include "kernels/portable/launch.hpp"
#include "kernels/rules/optimizer.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// A parameter and its moments.
struct Updated {
  float p, m, v;
};

template <typename T>
void adamw_as(std::size_t n, const rules::AdamWConstants& constants, const float* gradient, const AdamWState& state,
              T* rounded) {
  for_elements(
      "adamw", n,
      SHOAL_LAMBDA(std::size_t i) {
        Updated now{state.master[i], state.first[i], state.second[i]};
        rules::adamw(constants, gradient[i], now.p, now.m, now.v);
        return now;
      },
      SHOAL_LAMBDA(std::size_t i, const Updated& now) {
        state.master[i] = now.p;
        state.first[i] = now.m;
        state.second[i] = now.v;
        if (rounded != nullptr) rounded[i] = T(now.p);
      });
}

template <typename T>
void sgd_as(std::size_t n, const SgdStep& step, const float* gradient, const SgdState& state, T* rounded) {
  if (state.buffer == nullptr) {
    for_elements(
        "sgd", n, SHOAL_LAMBDA(std::size_t i) {
          float p = state.master[i];
          rules::sgd(step, gradient[i], p);
          state.master[i] = p;
          if (rounded != nullptr) rounded[i] = T(p);
        });
  } else {
    for_elements(
        "sgd", n, SHOAL_LAMBDA(std::size_t i) {
          float p = state.master[i], moment = state.buffer[i];
          rules::sgd(step, gradient[i], p, moment);
          state.master[i] = p;
          state.buffer[i] = moment;
          if (rounded != nullptr) rounded[i] = T(p);
        });
  }
}

}  // namespace

void adamw(std::size_t n, const AdamWStep& step, const float* gradient, const AdamWState& state,
           const RoundedParameters& rounded) {
  const rules::AdamWConstants constants(step);
  dispatch(rounded.type, [&]<typename T>(T) { adamw_as(n, constants, gradient, state, static_cast<T*>(rounded.data)); });
}

void sgd(std::size_t n, const SgdStep& step, const float* gradient, const SgdState& state,
         const RoundedParameters& rounded) {
  dispatch(rounded.type, [&]<typename T>(T) { sgd_as(n, step, gradient, state, static_cast<T*>(rounded.data)); });
}

}  // namespace shoal::kernels
