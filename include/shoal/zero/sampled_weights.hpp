// SPDX-License-Identifier: Apache-2.0
// Squares of gradients in the units of Adam's second moments, of one element in each piece of 256.
//
// [Note: weights of a sample] AdaScale measures how gradients differ where the update is made of them. Adam's update divides
// by the root of the second moment v, so the squares to compare are those of g / (sqrt(v) + epsilon), element by element:
// else a few with large gradients would decide the gain of all. But a micro-batch's gradient is whole on one rank before it
// is reduced, while v is shared out from stage 1 on, and nobody shall hold all of it. One element of every piece is as good:
// millions of parameters leave thousands of them, and 1/256 of v is quickly gathered. Which one it is changes from update to
// update, so that none is left out for good. Elements whose v is tiny, the embedding of a token not seen for long, must not
// outweigh all others when a gradient comes: v counts as at least a thousandth of the unit's mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class SampledWeights {
 public:
  SampledWeights() = default;  ///< none
  SampledWeights(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  bool used() const { return !slots_.empty(); }

  /// Draws a sample, and weighs it by 1 / (sqrt(v / correction) + epsilon)^2. `updates` says which sample; shard(unit): v on
  /// this rank's shard. Collective.
  void resample(std::uint64_t updates, const std::function<Span<const float>(int unit)>& shard, double correction,
                double epsilon);

  /// squares[i] = that of the element of piece first + i, weighted; `gradient` begins with piece `first`.
  void square(int unit, std::size_t first, DType dtype, const void* gradient, Span<double> squares) const;

 private:
  std::size_t element(int unit, std::size_t granule_index) const;
  float& weight(int unit, std::size_t granule_index) const;
  void weigh(int unit, double correction, double epsilon);

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::uint64_t updates_ = 0;
  std::vector<std::size_t> slots_, offsets_;  // by unit: pieces of the longest shard, and where they begin in a rank's part
  Span<float> own_, all_;                     // this rank's part, and every rank's: first v, then weights
};

}  // namespace shoal::zero
