// SPDX-License-Identifier: Apache-2.0
// The 2-norm over the gradients of all units, from every rank's shards: the same bits on any number of ranks
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
  double square = 0;         ///< value^2; of a sample with weights, where they are given (zero/sampled_weights.hpp)
  int non_finite_unit = -1;  ///< the unit nearest to the head whose gradient is not finite (-1: none): backward met it first
};

class GlobalNorm {
 public:
  GlobalNorm() = default;
  GlobalNorm(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory);

  /// Collective. shard(unit): this rank's shard, in dtype.
  Norm of(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard, const SampledWeights& weights);

 private:
  std::vector<double> sums_by_unit();

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::vector<Span<double>> granule_sums_;  // by unit, of this rank's shard
  Span<double> subtrees_, all_subtrees_;    // of all units: this rank's, and every rank's
};

}  // namespace shoal::zero
