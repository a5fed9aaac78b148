// SPDX-License-Identifier: Apache-2.0
// Updates of parameters that nodes trained locally between synchronizations (LocalSGD, SlowMo, DiLoCo, SGP): elementwise
// passes over n elements, in fp32.
#pragma once

#include <cstddef>

namespace shoal::kernels {

/// x /= divisor, which turns a sum into a mean.
void divide(std::size_t n, float divisor, float* x);

/// x = (x + other) / 2.
void average_with(std::size_t n, const float* other, float* x);
/// x += (other - before) / 2: averages a stale copy. `before` is the value of x that was sent to the other node; the change
/// of x since then, x - before, is not lost.
void average_with_stale(std::size_t n, const float* other, const float* before, float* x);
/// x = mean + (x - before): replaces `before`, the value of x when the mean was started, by the mean. The change of x since
/// then is not lost.
void rebase(std::size_t n, const float* mean, const float* before, float* x);
/// Exchanges x and y, bit by bit. They must not overlap.
void swap(std::size_t n, float* x, float* y);

/// The outer optimizer's update: `outer` holds the parameters of the last synchronization, x those after local training.
/// Afterwards both hold the updated parameters. u is the outer momentum.
struct OuterStep {
  float momentum, rate;
  float inner_rate;  ///< learning rate of the local steps; used by slow_momentum() only
};
/// SlowMo (Wang et al. 2019, algorithm 1): u = momentum u + (outer - x) / inner_rate; outer -= rate inner_rate u.
void slow_momentum(std::size_t n, const OuterStep& step, float* outer, float* u, float* x);
/// Nesterov momentum as in PyTorch's SGD, for DiLoCo (Douillard et al. 2023, algorithm 1): d = outer - x;
/// u = momentum u + d; outer -= rate (d + momentum u).
void outer_nesterov(std::size_t n, const OuterStep& step, float* outer, float* u, float* x);

}  // namespace shoal::kernels
