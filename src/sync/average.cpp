// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/average.hpp"

#include <algorithm>

#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

Average::Average(const Shares& shares, const Placement& placement, DType sent, Memory& memory)
    : shares_(&shares), placement_(placement), sent_(sent) {
  for (std::size_t u = 0; sent != DType::f32 && placement.across.ranks > 1 && u < shares.units(); ++u) {
    const std::size_t elements = shares.shards()[u].size();
    common_.push_back(memory.take<float>(Kind::master, elements, "parameters in common"));
    differences_.push_back(memory.take<std::byte>(Kind::buffers, elements * size_of(sent), "differences of parameters"));
  }
  const std::size_t across = comm::tree_scratch_bytes(placement.across.ranks, shares.shard_elements() * sizeof(float));
  const std::size_t in_node = comm::tree_scratch_bytes(placement.node.ranks, shares.whole_bytes());
  scratch_ = memory.take<std::byte>(Kind::buffers, std::max(across, in_node), "messages between nodes");
}

void Average::begin() {
  if (!in_differences()) return;
  for (std::size_t u = 0; u < shares_->units(); ++u) {
    const Span<float> now = shares_->master(u, shares_->shards()[u]);
    std::copy(now.begin(), now.end(), common_[u].begin());
  }
  run_exactly();
  for (std::size_t u = 0; u < shares_->units(); ++u) {  // and each its own again
    std::swap_ranges(common_[u].begin(), common_[u].end(), shares_->master(u, shares_->shards()[u]).begin());
  }
}

void Average::run(const Update& update) {
  if (in_differences()) {
    run_in_differences(update);
  } else {
    run_exactly(update);
  }
}

void Average::run_exactly(const Update& update) {
  const int nodes = placement_.across.ranks;
  const auto blocks = [&] {
    return shares_->blocks_across([&](std::size_t u, Range range) { return comm::bytes_of(shares_->master(u, range)); });
  };
  if (nodes > 1) comm::tree_reduce_scatter(*placement_.across.group, blocks(), DType::f32, scratch_).wait();
  for (std::size_t u = 0; u < shares_->units(); ++u) {
    const Range share = shares_->shares()[u];
    const Span<float> mean = shares_->master(u, share);
    if (nodes > 1) kernels::divide(mean.size(), static_cast<float>(nodes), mean.data());
    if (update) update(u, share, mean);
  }
  if (nodes > 1) comm::tree_all_gather(*placement_.across.group, blocks(), scratch_).wait();
}

void Average::run_in_differences(const Update& update) {
  comm::Communicator& group = *placement_.across.group;
  const auto blocks = [&] {
    return shares_->blocks_across([&](std::size_t u, Range range) { return difference(u, range); });
  };
  const auto subtract = [&](std::size_t u, Range range) {
    kernels::subtract(sent_, range.size(), shares_->master(u, range).data(), common(u, range), difference(u, range).data());
  };
  const auto add = [&](std::size_t u, Range range, int divisor) {
    kernels::add_to_base(sent_, range.size(), common(u, range), difference(u, range).data(), static_cast<float>(divisor),
                         shares_->master(u, range).data());
  };
  for (std::size_t u = 0; u < shares_->units(); ++u) subtract(u, shares_->shards()[u]);
  comm::tree_reduce_scatter(group, blocks(), sent_, scratch_).wait();
  for (std::size_t u = 0; u < shares_->units(); ++u) {
    const Range share = shares_->shares()[u];
    add(u, share, placement_.across.ranks);
    if (update) update(u, share, shares_->master(u, share));
    subtract(u, share);
  }
  comm::tree_all_gather(group, blocks(), scratch_).wait();
  for (std::size_t u = 0; u < shares_->units(); ++u) {
    const Range shard = shares_->shards()[u];
    add(u, shard, 1);  // the owner too: it has the rounded difference, as all have
    const Span<float> now = shares_->master(u, shard);
    std::copy(now.begin(), now.end(), common_[u].begin());
  }
}

void Average::gather_in_node() {
  if (placement_.node.ranks == 1 || shares_->whole_bytes() == 0) return;
  comm::tree_all_gather(*placement_.node.group, shares_->blocks_in_node(), scratch_).wait();
}

std::vector<NamedSlice> Average::slices(const std::vector<model::UnitLayout>& units,
                                        const std::vector<Range>& wanted) const {
  if (!in_differences()) return {};
  return zero::named_slices(units, "/common/", shares_->shards(), common_, wanted);
}

Span<std::byte> Average::difference(std::size_t unit, Range range) const {
  const std::size_t size = size_of(sent_);
  return differences_[unit].subspan((range.begin - shares_->shards()[unit].begin) * size, range.size() * size);
}

const float* Average::common(std::size_t unit, Range range) const {
  return common_[unit].subspan(range.begin - shares_->shards()[unit].begin, range.size()).data();
}

}  // namespace shoal::sync
