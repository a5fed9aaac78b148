// SPDX-License-Identifier: Apache-2.0
// Updates of parameters that nodes trained apart from each other: elementwise passes over flat slices, in fp32.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// x /= divisor: the last part of a mean.
void divide(std::size_t n, float divisor, float* x);

/// x = (x + other) / 2.
void average_with(std::size_t n, const float* other, float* x);
/// x += (other - before) / 2: meet() of x as it was `before`, with what x has become since left on top.
void average_with_stale(std::size_t n, const float* other, const float* before, float* x);
/// x = mean + (x - before): a mean with x as it was `before`, with what x has become since left on top.
void rebase(std::size_t n, const float* mean, const float* before, float* x);

/// difference = x - base, rounded to the type; and back: x = base + difference / divisor. x may be any of the others that is
/// in fp32.
void subtract(DType type, std::size_t n, const float* x, const float* base, void* difference);
void add_to_base(DType type, std::size_t n, const float* base, const void* difference, float divisor, float* x);

/// The outer update of parameters x that have moved away from `outer`; afterwards x = outer.
struct OuterStep {
  float momentum, rate;
  float inner_rate;  ///< learning rate of the steps in between; slow_momentum() only
};
/// SlowMo (Wang et al. 2019, algorithm 1): u = momentum u + (outer - x) / inner_rate; outer -= rate inner_rate u.
void slow_momentum(std::size_t n, const OuterStep& step, float* outer, float* u, float* x);
/// Nesterov's momentum as torch's SGD has it, for DiLoCo (Douillard et al. 2023, algorithm 1): d = outer - x;
/// u = momentum u + d; outer -= rate (d + momentum u).
void outer_nesterov(std::size_t n, const OuterStep& step, float* outer, float* u, float* x);

}  // namespace shoal::kernels
