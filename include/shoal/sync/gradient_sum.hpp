// SPDX-License-Identifier: Apache-2.0
// The sum of gradients over all nodes, while they warm up (sync/schedule.hpp): a reduce-scatter of this rank's shards by
// the fixed tree over the nodes' numbers, and an all-gather. Nodes whose number, and that of the step's micro-batches, is a
// power of two have the gradient of sync.kind = every_step bit by bit: the tree within a node is the lower part of it
// ([Note: one trajectory] in zero/accumulation.hpp), this one the upper.
#pragma once

#include <functional>

#include "shoal/base/memory.hpp"
#include "shoal/sync/sub_shards.hpp"

namespace shoal::sync {

class GradientSum {
 public:
  /// Gradients are of this type; shares must outlive this.
  GradientSum(const SubShards& sub_shards, const NodeGroups& groups, DType type, Memory& memory);

  /// Elements `range` of this rank's shard of a unit's gradient.
  using Gradient = std::function<Span<std::byte>(std::size_t unit, Range range)>;
  /// Collective over all nodes: each one's gradient becomes the sum.
  void run(const Gradient& gradient);

 private:
  const SubShards* sub_shards_;
  NodeGroups groups_;
  DType type_;
  Span<std::byte> scratch_;
};

}  // namespace shoal::sync
