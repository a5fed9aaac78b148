// SPDX-License-Identifier: Apache-2.0
// What a step knows of the size of its gradient.
#pragma once

namespace shoal::zero {

struct Norm {
  double value = 0;
  double square = 0;         ///< value^2, or the weighted sum over a sample (src/zero/sampled_weights.hpp)
  int non_finite_unit = -1;  ///< last unit whose gradient is not finite (-1: none); backward computes the last unit first
};

}  // namespace shoal::zero
