// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/sub_shards.hpp"

#include <algorithm>

#include "shoal/zero/buckets.hpp"

namespace shoal::sync {

Range SubShards::sub_shard_of(Range shard, int node, int nodes) {
  const Range part = zero::shard_of(shard.size(), node, nodes);
  return {shard.begin + part.begin, shard.begin + part.end};
}

SubShards::SubShards(zero::States& states, std::size_t units, const NodeGroups& groups) : states_(&states), groups_(groups) {
  for (std::size_t u = 0; u < units; ++u) {
    shards_.push_back(states.layout(static_cast<int>(u)).shard);
    sub_shards_.push_back(sub_shard_of(shards_.back(), groups.across.rank, groups.across.ranks));
  }
}

std::size_t SubShards::shard_elements() const {
  std::size_t elements = 0;
  for (const Range shard : shards_) elements += shard.size();
  return elements;
}

std::size_t SubShards::largest_sub_shard(std::size_t unit) const {
  std::size_t largest = 0;
  for (int k = 0; k < groups_.across.ranks; ++k) {
    largest = std::max(largest, sub_shard_of(shards_[unit], k, groups_.across.ranks).size());
  }
  return largest;
}

Span<float> SubShards::master(std::size_t unit, Range range) const {
  const int number = static_cast<int>(unit);
  return states_->master(number).subspan(range.begin - states_->layout(number).optimizer.begin, range.size());
}

comm::Blocks SubShards::blocks_in_node() const {
  const int ranks = groups_.node.ranks;
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (std::size_t u = 0; u < units(); ++u) {
    const zero::ShardLayout& layout = states_->layout(static_cast<int>(u));
    if (layout.updated_in_part()) continue;
    for (int r = 0; r < ranks; ++r) {
      const Range range = zero::shard_of(layout.elements, r, ranks);
      if (!range.empty()) blocks[static_cast<std::size_t>(r)].push_back(comm::bytes_of(master(u, range)));
    }
  }
  return blocks;
}

std::size_t SubShards::whole_bytes() const {
  std::size_t elements = 0;
  for (std::size_t u = 0; u < units(); ++u) {
    const zero::ShardLayout& layout = states_->layout(static_cast<int>(u));
    if (!layout.updated_in_part()) elements += layout.elements;
  }
  return elements * sizeof(float);
}

}  // namespace shoal::sync
