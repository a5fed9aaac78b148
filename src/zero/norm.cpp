// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/norm.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "shoal/kernels/storage.hpp"
#include "shoal/zero/tree_sum.hpp"

namespace shoal::zero {

namespace {

Range shard_granules(std::size_t elements, int rank, int ranks) {
  const Range shard = shard_of(elements, rank, ranks);
  return {granule_count(shard.begin), granule_count(shard.end)};
}

/// Number of subtrees that a rank has in all units, at most.
std::size_t most_subtrees(const std::vector<ShardLayout>& layouts, int ranks) {
  std::map<std::size_t, std::size_t> units_by_size;  // counts equal units once, since there may be thousands
  for (const ShardLayout& layout : layouts) ++units_by_size[layout.elements];
  std::size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t count = 0;
    for (const auto& [elements, units] : units_by_size) {
      count += units * subtree_count(granule_count(elements), shard_granules(elements, rank, ranks));
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

GlobalNorm::GlobalNorm(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory)
    : layouts_(layouts), groups_(groups) {
  for (const ShardLayout& layout : layouts_) {
    const Range granules = shard_granules(layout.elements, groups_.rank, groups_.ranks);
    granule_sums_.push_back(memory.take<double>(Kind::buffers, granules.size(), "sums by piece"));
  }
  const std::size_t most =
      most_subtrees(layouts_, groups_.ranks);  // the same on all ranks, so that one all-gather is enough
  subtrees_ = memory.take<double>(Kind::buffers, most, "sums by subtree");
  all_subtrees_ = memory.take<double>(Kind::buffers, most * static_cast<std::size_t>(groups_.ranks), "sums by subtree");
}

Norm GlobalNorm::of(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard,
                    const SampledWeights& weights) {
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    kernels::sum_of_squares_by_granule(dtype, layouts_[u].shard.size(), shard(static_cast<int>(u)).data(),
                                       granule_sums_[u].data());
  }
  Norm norm;
  const std::vector<double> squares = sums_by_unit();
  for (std::size_t u = 0; u < squares.size(); ++u) {
    if (!std::isfinite(squares[u])) norm.non_finite_unit = static_cast<int>(u);
    norm.square += squares[u];
  }
  norm.value = std::sqrt(norm.square);
  if (weights.used()) {
    for (std::size_t u = 0; u < layouts_.size(); ++u) {
      const Range granules = shard_granules(layouts_[u].elements, groups_.rank, groups_.ranks);
      weights.square(static_cast<int>(u), granules.begin, dtype, shard(static_cast<int>(u)).data(), granule_sums_[u]);
    }
    const std::vector<double> weighted = sums_by_unit();
    norm.square = std::accumulate(weighted.begin(), weighted.end(), 0.0);
  }
  return norm;
}

/// Adds granule_sums_ of all ranks, by unit. Collective.
std::vector<double> GlobalNorm::sums_by_unit() {
  std::size_t at = 0;
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    const std::size_t elements = layouts_[u].elements;
    const Range granules = shard_granules(elements, groups_.rank, groups_.ranks);
    for (const double sum : subtree_sums(granule_count(elements), granules, granule_sums_[u])) subtrees_[at++] = sum;
  }
  if (groups_.ranks > 1) {
    groups_.group->all_gather(comm::bytes_of(subtrees_), comm::bytes_of(all_subtrees_)).wait();
  } else {
    std::copy(subtrees_.begin(), subtrees_.end(), all_subtrees_.begin());
  }

  std::vector<double> result;
  std::vector<std::size_t> next(static_cast<std::size_t>(groups_.ranks), 0);
  for (const ShardLayout& layout : layouts_) {
    const std::size_t granules = granule_count(layout.elements);
    std::vector<Range> owners;
    std::vector<Span<const double>> values;
    for (std::size_t r = 0; r < next.size(); ++r) {
      owners.push_back(shard_granules(layout.elements, static_cast<int>(r), groups_.ranks));
      const std::size_t count = subtree_count(granules, owners[r]);
      values.push_back(all_subtrees_.subspan(r * subtrees_.size() + next[r], count));
      next[r] += count;
    }
    result.push_back(join_subtrees(granules, owners, values));
  }
  return result;
}

}  // namespace shoal::zero
