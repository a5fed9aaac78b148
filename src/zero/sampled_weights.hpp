// SPDX-License-Identifier: Apache-2.0
// Squares of gradients in the units of Adam's second moments, of one element in each granule.
//
// [Note: weights of a sample] AdaScale measures how much gradients differ. Adam divides its update by the root of the second
// moment v, so the squares to compare are those of g / (sqrt(v) + epsilon), element by element. Without this division the
// gain would depend almost only on a few elements with large gradients. But a micro-batch's gradient is whole on one rank
// before it is reduced, while v is sharded from stage 1 on, and no rank may store all of it. So a sample of one element in
// each granule is used: of millions of parameters these are thousands, and gathering 1/256 of v is quick. After every update
// another element of each granule is drawn, so that over many updates all are used. Elements whose v is tiny, such as the
// embedding of a token that has not occurred for long, must not outweigh all others when a gradient reaches them: v counts
// as at least a thousandth of the unit's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/kernels/sample.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class SampledWeights {
 public:
  SampledWeights() = default;  ///< not used
  SampledWeights(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  bool used() const { return !slots_.empty(); }

  /// Draws the sample that belongs to this number of updates, with weights 1 / (sqrt(v / correction) + epsilon)^2.
  /// shard(unit): v on this rank's shard. Collective.
  void resample(std::uint64_t updates, const std::function<Span<const float>(int unit)>& shard, double correction,
                double epsilon);

  /// Enqueues: squares[i] = the weighted square of the sampled element of granule first + i; `gradient` begins with granule
  /// `first`.
  void square(int unit, std::size_t first, DType dtype, const void* gradient, Span<double> squares) const;

 private:
  kernels::Sample sample(std::size_t unit) const;

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::uint64_t updates_ = 0;
  std::vector<std::size_t> slots_, offsets_;  // by unit: granules of the longest shard, and their offset in a rank's part
  Span<float> own_, all_;                     // this rank's part, and all ranks' parts: first of v, then of weights
  Span<double> mean_;                         // one number, for the kernel that weighs
};

}  // namespace shoal::zero
