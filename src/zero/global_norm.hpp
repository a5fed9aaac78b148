// SPDX-License-Identifier: Apache-2.0
// The 2-norm of the gradients of all units, from the shards of all ranks. It has the same bits on any number of ranks
// (zero/tree_sum.hpp), and on any number of stages of a pipeline: squares are summed by unit on the stage that has the unit,
// and added in the order of units on all.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/zero/norm.hpp"
#include "shoal/zero/stages.hpp"
#include "zero/sampled_weights.hpp"

namespace shoal::zero {

class GlobalNorm {
 public:
  GlobalNorm() = default;
  /// weighted: Norm::square is weighted.
  GlobalNorm(const std::vector<ShardLayout>& layouts, const RankGroups& groups, bool weighted, Memory& memory);

  /// Enqueues this rank's sums, and their copy to the host. shard(unit): this rank's shard of the gradient, in dtype.
  void measure(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard, const SampledWeights& weights);
  /// The norm of what was measured last, after the host has waited for an event behind measure(). Collective, also over
  /// RankGroups::model.
  Norm norm() const;

 private:
  /// For each rank: the granules of a unit that it owns, and into how many subtrees they fall.
  struct Owners {
    std::vector<Range> granules;
    std::vector<std::size_t> subtrees;
  };

  bool weighted() const { return subtrees_.size() > most_subtrees_; }
  Range own_granules(std::size_t unit) const;
  std::vector<double> sums_by_unit(Span<double> own) const;

  std::vector<ShardLayout> layouts_;
  RankGroups groups_;
  std::map<std::size_t, Owners> owners_;    // by the unit's elements: thousands of units have few sizes
  std::size_t most_subtrees_ = 0;           // of a rank, in its units
  std::vector<Span<double>> granule_sums_;  // by unit, of this rank's shard
  device::Cells subtrees_;                  // this rank's sums of its units; behind them the weighted ones, if there are any
};

}  // namespace shoal::zero
