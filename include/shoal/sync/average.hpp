// SPDX-License-Identifier: Apache-2.0
// The mean of the master parameters over all nodes: a reduce-scatter by the fixed tree over the nodes' numbers, a division
// by their number, an all-gather. Every node ends with the same bits.
#pragma once

#include <functional>

#include "shoal/base/memory.hpp"
#include "shoal/sync/shares.hpp"

namespace shoal::sync {

class Average {
 public:
  /// shares must outlive this.
  Average(const Shares& shares, const Placement& placement, Memory& memory);

  /// What is done to the mean of each unit's share, on the one rank that has it, before the others get it.
  using Update = std::function<void(std::size_t unit, Range share, Span<float> mean)>;
  /// Collective over all nodes. Afterwards this rank's shards are the mean, updated.
  void run(const Update& update = {});

  /// Collective in the node: what every rank of it keeps whole (stage 0) is gathered from the shards.
  void gather_in_node();

 private:
  const Shares* shares_;
  Placement placement_;
  Span<std::byte> scratch_;
};

}  // namespace shoal::sync
