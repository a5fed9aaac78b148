// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/shares.hpp"

#include <algorithm>

#include "shoal/zero/messages.hpp"

namespace shoal::sync {

Range Shares::share_of(Range shard, int node, int nodes) {
  const Range part = zero::shard_of(shard.size(), node, nodes);
  return {shard.begin + part.begin, shard.begin + part.end};
}

Shares::Shares(zero::States& states, std::size_t units, const Placement& placement)
    : states_(&states), placement_(placement) {
  for (std::size_t u = 0; u < units; ++u) {
    shards_.push_back(states.holding(static_cast<int>(u)).shard);
    shares_.push_back(share_of(shards_.back(), placement.across.rank, placement.across.ranks));
  }
}

std::size_t Shares::shard_elements() const {
  std::size_t elements = 0;
  for (const Range shard : shards_) elements += shard.size();
  return elements;
}

std::size_t Shares::largest_share(std::size_t unit) const {
  std::size_t largest = 0;
  for (int k = 0; k < placement_.across.ranks; ++k) {
    largest = std::max(largest, share_of(shards_[unit], k, placement_.across.ranks).size());
  }
  return largest;
}

Span<float> Shares::master(std::size_t unit, Range range) const {
  const int number = static_cast<int>(unit);
  return states_->master(number).subspan(range.begin - states_->holding(number).optimizer.begin, range.size());
}

comm::Blocks Shares::blocks_in_node() const {
  const int ranks = placement_.node.ranks;
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (std::size_t u = 0; u < units(); ++u) {
    const zero::Holding& holding = states_->holding(static_cast<int>(u));
    if (holding.updated_in_part()) continue;
    for (int r = 0; r < ranks; ++r) {
      const Range range = zero::shard_of(holding.elements, r, ranks);
      if (!range.empty()) blocks[static_cast<std::size_t>(r)].push_back(comm::bytes_of(master(u, range)));
    }
  }
  return blocks;
}

std::size_t Shares::whole_bytes() const {
  std::size_t elements = 0;
  for (std::size_t u = 0; u < units(); ++u) {
    const zero::Holding& holding = states_->holding(static_cast<int>(u));
    if (!holding.updated_in_part()) elements += holding.elements;
  }
  return elements * sizeof(float);
}

}  // namespace shoal::sync
