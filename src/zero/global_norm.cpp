// SPDX-License-Identifier: Apache-2.0
#include "zero/global_norm.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "shoal/kernels/reduce.hpp"
#include "shoal/kernels/storage.hpp"
#include "zero/tree_sum.hpp"

namespace shoal::zero {

namespace {

Range shard_granules(std::size_t elements, int rank, int ranks) {
  const Range shard = shard_of(elements, rank, ranks);
  return {granule_count(shard.begin), granule_count(shard.end)};
}

}  // namespace

GlobalNorm::GlobalNorm(const std::vector<ShardLayout>& layouts, const RankGroups& groups, bool weighted, Memory& memory)
    : layouts_(layouts), groups_(groups) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(groups.ranks), 0);  // by rank, in all units
  for (const ShardLayout& layout : layouts) {
    const auto [found, fresh] = owners_.try_emplace(layout.elements);
    Owners& owners = found->second;
    for (int rank = 0; fresh && rank < groups.ranks; ++rank) {
      owners.granules.push_back(shard_granules(layout.elements, rank, groups.ranks));
      owners.subtrees.push_back(subtree_count(granule_count(layout.elements), owners.granules.back()));
    }
    std::transform(counts.begin(), counts.end(), owners.subtrees.begin(), counts.begin(), std::plus<>());
  }
  most_subtrees_ = *std::max_element(counts.begin(), counts.end());
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    granule_sums_.push_back(memory.take<double>(Kind::buffers, own_granules(u).size(), "sums by piece"));
  }
  // As many numbers on all ranks, so that one all-gather is enough.
  subtrees_ = device::Cells(memory, (weighted ? 2 : 1) * most_subtrees_, "sums by subtree");
}

Range GlobalNorm::own_granules(std::size_t unit) const {
  return shard_granules(layouts_[unit].elements, groups_.rank, groups_.ranks);
}

void GlobalNorm::measure(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard,
                         const SampledWeights& weights) {
  std::size_t at = 0;
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    if (layouts_[u].elements == 0) continue;
    const Range granules = own_granules(u);
    const kernels::Subtrees own = subtrees(granule_count(layouts_[u].elements), granules);
    const void* const gradient = shard(static_cast<int>(u)).data();
    double* const sums = granule_sums_[u].data();
    kernels::sum_of_squares_by_granule(dtype, layouts_[u].shard.size(), gradient, sums);
    kernels::sum_subtrees(own, sums, subtrees_.cell(at));
    if (weighted()) {
      weights.square(static_cast<int>(u), granules.begin, dtype, gradient, granule_sums_[u]);
      kernels::sum_subtrees(own, sums, subtrees_.cell(most_subtrees_ + at));
    }
    at += own.count;
  }
  subtrees_.fetch();
}

Norm GlobalNorm::norm() const {
  Norm norm;
  const std::vector<double> squares = sums_by_unit(subtrees_.values().first(most_subtrees_));
  for (std::size_t u = 0; u < squares.size(); ++u) {
    if (!std::isfinite(squares[u])) norm.non_finite_unit = static_cast<int>(u);
    norm.square += squares[u];
  }
  norm.value = std::sqrt(norm.square);
  if (weighted()) {
    const std::vector<double> weighted_squares = sums_by_unit(subtrees_.values().last(most_subtrees_));
    norm.square = std::accumulate(weighted_squares.begin(), weighted_squares.end(), 0.0);
  }
  return norm;
}

/// Gathers the sums of all ranks, and joins them by unit; those of absent units come from their stages. own: those of this
/// rank. Collective.
std::vector<double> GlobalNorm::sums_by_unit(Span<double> own) const {
  std::vector<double> all(own.size() * static_cast<std::size_t>(groups_.ranks));
  if (groups_.ranks > 1) {
    groups_.group->all_gather(comm::bytes_of(own), comm::bytes_of(Span<double>(all))).wait();
  } else {
    std::copy(own.begin(), own.end(), all.begin());
  }

  std::vector<double> result;
  std::vector<std::size_t> next(static_cast<std::size_t>(groups_.ranks), 0);
  for (const ShardLayout& layout : layouts_) {
    const Owners& owners = owners_.at(layout.elements);
    std::vector<Span<const double>> values;
    for (std::size_t r = 0; r < next.size(); ++r) {
      values.push_back(Span<const double>(all).subspan(r * own.size() + next[r], owners.subtrees[r]));
      next[r] += owners.subtrees[r];
    }
    result.push_back(join_subtrees(granule_count(layout.elements), owners.granules, values));
  }
  share_over_model(groups_, result);
  return result;
}

}  // namespace shoal::zero
