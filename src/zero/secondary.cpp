// SPDX-License-Identifier: Apache-2.0
#include "zero/secondary.hpp"

#include <algorithm>

#include "fill_with_nan.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::zero {

Secondary::Secondary(const std::vector<ShardLayout>& layouts, DType dtype, const ZeroOptions& options,
                     const RankGroups& groups, Memory& memory)
    : element_bytes_(size_of(dtype)), kept_(layouts.size(), false), fresh_(layouts.size(), false), shards_(layouts.size()) {
  if (!has_secondary(options.hpz_size, groups.ranks)) return;
  ranks_ = static_cast<int>(options.hpz_size);
  rank_ = groups.rank % ranks_;
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    if (!layouts[u].gathered) continue;
    kept_[u] = true;
    const Range shard = shard_of(layouts[u].elements, rank_, ranks_);
    shards_[u] = memory.take<std::byte>(Kind::parameters, shard.size() * element_bytes_, "second partition (hpZ)");
  }
}

Range Secondary::bytes_of_shard(Span<const std::byte> whole) const {
  const Range shard = shard_of(whole.size() / element_bytes_, rank_, ranks_);
  return {shard.begin * element_bytes_, shard.end * element_bytes_};
}

void Secondary::store(int unit, Span<const std::byte> whole) {
  const auto u = static_cast<std::size_t>(unit);
  if (!kept_[u]) return;
  kernels::copy_bytes(shards_[u].size(), whole.data() + bytes_of_shard(whole).begin, shards_[u].data());
  fresh_[u] = true;
}

void Secondary::expire() {
  std::fill(fresh_.begin(), fresh_.end(), false);
#ifndef NDEBUG
  for (const Span<std::byte> shard : shards_) fill_with_nan(shard);
#endif
}

void Secondary::copy_shard(int unit, Span<std::byte> whole) const {
  const Span<std::byte> shard = shards_[static_cast<std::size_t>(unit)];
  kernels::copy_bytes(shard.size(), shard.data(), whole.data() + bytes_of_shard(whole).begin);
}

}  // namespace shoal::zero
