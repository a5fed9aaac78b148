// SPDX-License-Identifier: Apache-2.0
// How much a piece of 256 elements counts in a gradient's square, where Adam's second moments say how large its gradients
// usually are.
//
// [Note: weights by piece] AdaScale measures how gradients differ where the update is made of them. Adam's update divides by
// the root of the second moment v, so the squares to compare are those of g / (sqrt(v) + epsilon): else a few tensors with
// large gradients would decide the gain of all. A micro-batch's gradient is whole on one rank before it is reduced, while v
// is shared out from stage 1 on; one v per piece, its mean, is 1/256 of what gathering v would take. Within a piece the
// squares keep their own proportions.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class PieceWeights {
 public:
  PieceWeights() = default;  ///< none: every piece counts alike
  PieceWeights(const std::vector<Holding>& holdings, const Placement& placement, Memory& memory);

  bool used() const { return !slots_.empty(); }

  /// 1 / (sqrt(mean of v / correction) + epsilon)^2 by piece; 0 where no gradient was ever seen, v = 0. Collective.
  /// shard(unit): v on this rank's shard.
  void refresh(const std::function<Span<const float>(int unit)>& shard, double correction, double epsilon);

  /// Multiplies sums over the unit's pieces: sums[i] belongs to piece first + i.
  void apply(int unit, std::size_t first, Span<double> sums) const;

 private:
  std::vector<Holding> holdings_;
  Placement placement_;
  std::vector<std::size_t> slots_, offsets_;  // by unit: pieces of the longest shard, and where they begin in a rank's part
  Span<double> own_, all_;                    // this rank's part, and every rank's
};

}  // namespace shoal::zero
