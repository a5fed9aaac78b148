// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/average.hpp"

#include <algorithm>

#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

Average::Average(const Shares& shares, const Placement& placement, Memory& memory)
    : shares_(&shares), placement_(placement) {
  const std::size_t across = comm::tree_scratch_bytes(placement.across.ranks, shares.shard_bytes());
  const std::size_t in_node = comm::tree_scratch_bytes(placement.node.ranks, shares.whole_bytes());
  scratch_ = memory.take<std::byte>(Kind::buffers, std::max(across, in_node), "messages between nodes");
}

void Average::run(const Update& update) {
  const int nodes = placement_.across.ranks;
  if (nodes > 1) {
    comm::tree_reduce_scatter(*placement_.across.group, shares_->blocks_across(), DType::f32, scratch_).wait();
  }
  for (std::size_t u = 0; u < shares_->units(); ++u) {
    const Range share = shares_->shares()[u];
    const Span<float> mean = shares_->master(u, share);
    if (nodes > 1) kernels::divide(mean.size(), static_cast<float>(nodes), mean.data());
    if (update) update(u, share, mean);
  }
  if (nodes > 1) comm::tree_all_gather(*placement_.across.group, shares_->blocks_across(), scratch_).wait();
}

void Average::gather_in_node() {
  if (placement_.node.ranks == 1 || shares_->whole_bytes() == 0) return;
  comm::tree_all_gather(*placement_.node.group, shares_->blocks_in_node(), scratch_).wait();
}

}  // namespace shoal::sync
