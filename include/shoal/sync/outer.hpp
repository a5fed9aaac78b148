// SPDX-License-Identifier: Apache-2.0
// The outer update and what it remembers: parameters as they were after the last one, and its momentum.
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
  /// ranges: what of each unit is updated on this rank; shares must outlive this.
  Outer(const SyncOptions& options, const SubShards& sub_shards, const std::vector<Range>& ranges, Memory& memory);

  /// From the master parameters as they are now, at rest.
  void reset();
  /// Elements `range` of the unit, which lie in its range; x: their values, which the nodes' steps have moved; they are
  /// replaced. inner_rate: the learning rate of the last of these steps. Where it is zero there is nothing to divide by:
  /// slowmo takes x as it is then and keeps its momentum.
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
