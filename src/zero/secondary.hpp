// SPDX-License-Identifier: Apache-2.0
// hpZ: a second partition of the gathered parameters, over a few consecutive ranks, usually those of a node (Wang et al.
// 2023, "ZeRO++", section 3.2). The first gather of a unit after an update is over all ranks, and its result is stored in
// the second partition. Later gathers, in backward and in the other micro-batches of the step, use this partition and stay
// among its ranks. The paper gathers over all ranks in every forward; here once per update is enough, since the second
// partition stays valid until parameters change.
#pragma once

#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/zero/options.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::zero {

class Secondary {
 public:
  /// Keeps this rank's shard of every gathered unit among options.hpz_size ranks, in the model's dtype; nothing without
  /// has_secondary().
  Secondary(const std::vector<ShardLayout>& layouts, DType dtype, const ZeroOptions& options, const RankGroups& groups,
            Memory& memory);

  /// Number of ranks of the second partition; 1 if there is none.
  int ranks() const { return ranks_; }
  /// Returns true if the unit may be gathered from the second partition; the same on all ranks.
  bool fresh(int unit) const { return fresh_[static_cast<std::size_t>(unit)]; }
  /// Stores this rank's shard of the unit, which was gathered over all ranks.
  void store(int unit, Span<const std::byte> whole);
  /// Marks all units as outdated, after parameters were updated.
  void expire();
  /// TiedCopies this rank's shard to its position in the whole unit.
  void copy_shard(int unit, Span<std::byte> whole) const;

 private:
  Range bytes_of_shard(Span<const std::byte> whole) const;

  std::size_t element_bytes_;
  int rank_ = 0, ranks_ = 1;
  // By unit. kept_: a shard of it is stored here; fresh_: that shard is valid.
  std::vector<bool> kept_, fresh_;
  std::vector<Span<std::byte>> shards_;
};

}  // namespace shoal::zero
