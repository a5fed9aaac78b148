// SPDX-License-Identifier: Apache-2.0
// A sample of one element in each granule of a unit, and weights for their squares: [Note: weights of a sample] in
// zero/sampled_weights.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/granule.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The sample of one unit. An array of weights has one part of `stride` numbers per rank, in which the unit has `slots`
/// numbers from `offset` on: one for each granule of the longest shard.
struct Sample {
  std::size_t elements;   ///< of the unit
  std::uint64_t updates;  ///< decides which element of each granule is drawn
  std::size_t slots, offset, stride;
};

/// drawn[i] = the sampled element of granule i of a shard, whose values are given. The shard begins with a granule.
void draw_sample(const Sample& sample, Range shard, const float* values, float* drawn);

/// Replaces v, Adam's second moments of the sampled elements, by 1 / (sqrt(v / correction) + epsilon)^2. v counts as at
/// least a thousandth of its mean over the sample; if the mean is 0, so are all weights. mean: memory for one number, which
/// is overwritten.
void weigh_sample(const Sample& sample, double correction, double epsilon, double* mean, float* weights);

/// squares[i] = the weighted square of the sampled element of granule first + i, for `granules` of them. `values` begin with
/// granule `first`.
void weighted_squares(const Sample& sample, const float* weights, std::size_t first, std::size_t granules, DType type,
                      const void* values, double* squares);

}  // namespace shoal::kernels
