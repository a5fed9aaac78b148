// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/outer.hpp"

#include "kernels/portable/launch.hpp"
#include "kernels/rules/outer.hpp"

namespace shoal::kernels {

using namespace portable;

void divide(std::size_t n, float divisor, float* x) {
  set_elements(
      "divide", n, x, SHOAL_LAMBDA(std::size_t i) { return x[i] / divisor; });
}

void average_with(std::size_t n, const float* other, float* x) {
  set_elements(
      "average_with", n, x, SHOAL_LAMBDA(std::size_t i) { return rules::average(x[i], other[i]); });
}

void average_with_stale(std::size_t n, const float* other, const float* before, float* x) {
  set_elements(
      "average_with_stale", n, x,
      SHOAL_LAMBDA(std::size_t i) { return rules::average_with_stale(x[i], other[i], before[i]); });
}

void rebase(std::size_t n, const float* mean, const float* before, float* x) {
  set_elements(
      "rebase", n, x, SHOAL_LAMBDA(std::size_t i) { return rules::rebased(x[i], mean[i], before[i]); });
}

void swap(std::size_t n, float* x, float* y) {
  for_elements(
      "swap", n, SHOAL_LAMBDA(std::size_t i) {
        const float first = x[i];
        x[i] = y[i];
        y[i] = first;
      });
}

void slow_momentum(std::size_t n, const OuterStep& step, float* outer, float* u, float* x) {
  for_elements(
      "slow_momentum", n, SHOAL_LAMBDA(std::size_t i) {
        float now = outer[i], moment = u[i];
        rules::slow_momentum(step, x[i], now, moment);
        u[i] = moment;
        outer[i] = now;
        x[i] = now;
      });
}

void outer_nesterov(std::size_t n, const OuterStep& step, float* outer, float* u, float* x) {
  for_elements(
      "outer_nesterov", n, SHOAL_LAMBDA(std::size_t i) {
        float now = outer[i], moment = u[i];
        rules::outer_nesterov(step, x[i], now, moment);
        u[i] = moment;
        outer[i] = now;
        x[i] = now;
      });
}

}  // namespace shoal::kernels
