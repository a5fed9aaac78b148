// SPDX-License-Identifier: Apache-2.0
// Who does what when nodes meet. Every rank brings the shard of each unit that it owns in its node (zero/stages.hpp), and
// meets those of its number on the other nodes, which own the same. Of that shard it sums one share, in whole pieces:
//
//   unit     |  shard of local rank 0  |  shard of local rank 1  |      (on every node alike)
//            | node 0's  |  node 1's   | node 0's  |  node 1's   |
//
// So over all ranks every element is one rank's, once.
#pragma once

#include <vector>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/sync/node_groups.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::sync {

class SubShards {
 public:
  /// states must outlive this; it has `units` units.
  SubShards(zero::States& states, std::size_t units, const NodeGroups& groups);

  std::size_t units() const { return shards_.size(); }
  /// This rank's, by unit: elements of the unit's flat buffer.
  const std::vector<Range>& shards() const { return shards_; }
  const std::vector<Range>& sub_shards() const { return sub_shards_; }
  /// Of all shards together.
  std::size_t shard_elements() const;
  /// Of the shares that this rank's shard of the unit is made of.
  std::size_t largest_sub_shard(std::size_t unit) const;

  /// Master parameters of a range of this rank's shard.
  Span<float> master(std::size_t unit, Range range) const;

  /// This rank's shards of these units as one message among its peers across nodes: block k is what node k's rank sums.
  /// span_of(unit, range): where it lies.
  template <typename SpanOf>
  comm::Blocks blocks_across(Range units, const SpanOf& span_of) const {
    const int nodes = groups_.across.ranks;
    comm::Blocks blocks(static_cast<std::size_t>(nodes));
    for (std::size_t u = units.begin; u < units.end; ++u) {
      for (int k = 0; k < nodes; ++k) {
        const Range range = sub_shard_of(shards_[u], k, nodes);
        if (!range.empty()) blocks[static_cast<std::size_t>(k)].push_back(span_of(u, range));
      }
    }
    return blocks;
  }
  /// All shards of units that every rank updates whole (stage 0), as one message in the node. Empty blocks where there are
  /// none.
  comm::Blocks blocks_in_node() const;
  std::size_t whole_bytes() const;  ///< of these units

 private:
  /// The part of a shard that node `node` of `nodes` sums.
  static Range sub_shard_of(Range shard, int node, int nodes);

  zero::States* states_;
  NodeGroups groups_;
  std::vector<Range> shards_, sub_shards_;
};

}  // namespace shoal::sync
