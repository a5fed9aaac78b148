// SPDX-License-Identifier: Apache-2.0
// hpZ: a second partition of the gathered parameters, over a few neighbouring ranks, mostly those of a node (Wang et al.
// 2023, "ZeRO++", section 3.2). The first gather of a unit after an update goes over all ranks and refreshes it; every
// other one, in backward and in the later micro-batches of the step, stays among the neighbours. The paper gathers over all
// ranks in each forward: what was refreshed is as good until the next update.
#pragma once

#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class Secondary {
 public:
  /// Of every gathered unit this rank's shard among options.hpz_size neighbours, in the model's dtype; nothing without
  /// has_secondary().
  Secondary(const std::vector<ShardLayout>& layouts, DType dtype, const ZeroOptions& options, const RankGroups& groups,
            Memory& memory);

  /// Of the neighbours; 1 where there is no second partition.
  int ranks() const { return ranks_; }
  /// Whether the unit may be gathered from the neighbours: the same on all ranks.
  bool fresh(int unit) const { return fresh_[static_cast<std::size_t>(unit)]; }
  /// The unit has arrived whole.
  void store(int unit, Span<const std::byte> whole);
  /// The parameters were updated.
  void expire();
  /// This rank's shard to its place in memory for the whole unit.
  void copy_shard(int unit, Span<std::byte> whole) const;

 private:
  Range bytes_of_shard(Span<const std::byte> whole) const;

  std::size_t element_bytes_;
  int rank_ = 0, ranks_ = 1;
  // By unit.
  std::vector<bool> kept_, fresh_;
  std::vector<Span<std::byte>> shards_;
};

}  // namespace shoal::zero
