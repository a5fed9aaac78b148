// SPDX-License-Identifier: Apache-2.0
// The 2-norm of the gradients of all units, from the shards of all ranks. It has the same bits on any number of ranks
// (zero/tree_sum.hpp).
#pragma once

#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/sampled_weights.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

struct Norm {
  double value = 0;
  double square = 0;         ///< value^2, or the weighted sum over a sample (zero/sampled_weights.hpp)
  int non_finite_unit = -1;  ///< last unit whose gradient is not finite (-1: none); backward computes the last unit first
};

class GlobalNorm {
 public:
  GlobalNorm() = default;
  GlobalNorm(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  /// Collective. shard(unit): this rank's shard of the gradient, in dtype. Norm::square is weighted if weights are used.
  Norm of(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard, const SampledWeights& weights);

 private:
  std::vector<double> sums_by_unit();

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::vector<Span<double>> granule_sums_;  // by unit, of this rank's shard
  Span<double> subtrees_, all_subtrees_;    // sums of all units: of this rank, and of every rank
};

}  // namespace shoal::zero
