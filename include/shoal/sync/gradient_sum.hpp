// SPDX-License-Identifier: Apache-2.0
// The sum of gradients over all nodes, while nodes warm up (sync/schedule.hpp): a reduce-scatter of this rank's shards by
// the fixed tree over the nodes' numbers, and an all-gather. If the numbers of nodes and of the step's micro-batches are
// powers of two, the result is bitwise the gradient of sync.kind = every_step: the sums within a node are the lower part of
// that tree ([Note: one trajectory] in zero/accumulation.hpp), and these are the upper part.
#pragma once

#include <functional>

#include "shoal/base/memory.hpp"
#include "shoal/sync/sub_shards.hpp"

namespace shoal::sync {

class GradientSum {
 public:
  /// type: of the gradients. sub_shards must outlive this.
  GradientSum(const SubShards& sub_shards, const NodeGroups& groups, DType type, Memory& memory);

  /// Returns elements `range` of this rank's shard of a unit's gradient.
  using Gradient = std::function<Span<std::byte>(std::size_t unit, Range range)>;
  /// Collective over all nodes: replaces each node's gradient by the sum.
  void run(const Gradient& gradient);

 private:
  const SubShards* sub_shards_;
  NodeGroups groups_;
  DType type_;
  Span<std::byte> scratch_;
};

}  // namespace shoal::sync
