// SPDX-License-Identifier: Apache-2.0
// The outer update of SlowMo and DiLoCo, and its state: the parameters after the last outer update, and its momentum.
#pragma once

#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/sync/options.hpp"
#include "shoal/sync/sub_shards.hpp"

namespace shoal::sync {

class Outer {
 public:
  /// ranges: the elements of each unit that this rank updates. sub_shards must outlive this.
  Outer(const SyncOptions& options, const SubShards& sub_shards, const std::vector<Range>& ranges, Memory& memory);

  /// Starts from the master parameters as they are now, with zero momentum.
  void reset();
  /// Exchanges the outer parameters with the master parameters.
  void swap_parameters();
  /// Replaces x, the elements `range` of the unit after the nodes' local steps, by their values after the outer update. The
  /// range is inside the unit's range of this rank. inner_rate: learning rate of the last local step. SlowMo divides by it:
  /// if it is zero, SlowMo takes x as it is and keeps its momentum.
  void update(std::size_t unit, Range range, Span<float> x, double inner_rate);

  /// For checkpoints: /outer/parameters/NAME, /outer/momentum/NAME.
  std::vector<NamedSlice> slices(const std::vector<model::UnitLayout>& units) const;

 private:
  SyncOptions options_;
  const SubShards* sub_shards_;
  std::vector<Range> ranges_;
  std::vector<Span<float>> parameters_, momentum_;  // by unit
};

}  // namespace shoal::sync
