// SPDX-License-Identifier: Apache-2.0
// Which rank averages which elements. Each rank has a shard of each unit (zero/stages.hpp), and the ranks with the same
// local rank have the same shard on every node. They form a group, which cuts that shard again, in whole granules, into one
// sub-shard per node; each rank of the group sums its own:
//
//   unit     |  shard of local rank 0  |  shard of local rank 1  |      (the same on every node)
//            | node 0's  |  node 1's   | node 0's  |  node 1's   |      (who sums it)
//
// So over all ranks every element belongs to one rank's sub-shard.
#pragma once

#include <vector>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/sync/node_groups.hpp"
#include "shoal/zero/states.hpp"

namespace shoal::sync {

class SubShards {
 public:
  /// units: number of units in states, which must outlive this.
  SubShards(zero::States& states, std::size_t units, const NodeGroups& groups);

  std::size_t units() const { return shards_.size(); }
  /// This rank's shards and sub-shards, by unit: elements of the unit's flat buffer.
  const std::vector<Range>& shards() const { return shards_; }
  const std::vector<Range>& sub_shards() const { return sub_shards_; }
  /// Number of elements of all shards of this rank.
  std::size_t shard_elements() const;
  /// Number of elements of the largest sub-shard of this rank's shard of the unit, over the nodes.
  std::size_t largest_sub_shard(std::size_t unit) const;

  /// Master parameters of a range of this rank's shard.
  Span<float> master(std::size_t unit, Range range) const;

  /// This rank's shards of these units as one message in the group across nodes: block k is what node k's rank sums.
  /// span_of(unit, range) returns the memory of these elements.
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
  /// The shards of units that every rank updates whole (stage 0), as one message in the node. In other stages the blocks are
  /// empty.
  comm::Blocks blocks_in_node() const;
  std::size_t whole_bytes() const;  ///< bytes of these units

 private:
  /// Returns the part of a shard that node `node` of `nodes` sums.
  static Range sub_shard_of(Range shard, int node, int nodes);

  zero::States* states_;
  NodeGroups groups_;
  std::vector<Range> shards_, sub_shards_;
};

}  // namespace shoal::sync
