// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/norm.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "shoal/kernels/storage.hpp"
#include "shoal/zero/tree_sum.hpp"

namespace shoal::zero {

namespace {

std::size_t piece_count(std::size_t elements) { return (elements + piece - 1) / piece; }

Range shard_pieces(std::size_t elements, int rank, int ranks) {
  const Range shard = shard_of(elements, rank, ranks);
  return {piece_count(shard.begin), piece_count(shard.end)};
}

/// The most numbers that a rank contributes: its subtrees of every unit.
std::size_t most_subtrees(const std::vector<Holding>& holdings, int ranks) {
  std::map<std::size_t, std::size_t>
      units_by_size;  // most units are alike: a thousand blocks on as many ranks count at once
  for (const Holding& h : holdings) ++units_by_size[h.elements];
  std::size_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t count = 0;
    for (const auto& [elements, units] : units_by_size) {
      count += units * subtree_count(piece_count(elements), shard_pieces(elements, rank, ranks));
    }
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

GlobalNorm::GlobalNorm(const std::vector<Holding>& holdings, const Placement& placement, Memory& memory)
    : holdings_(holdings), placement_(placement) {
  for (const Holding& h : holdings_) {
    const Range pieces = shard_pieces(h.elements, placement_.rank, placement_.ranks);
    piece_sums_.push_back(memory.take<double>(Kind::buffers, pieces.size(), "sums by piece"));
  }
  const std::size_t most = most_subtrees(holdings_, placement_.ranks);  // equal room for all, so that one all-gather serves
  subtrees_ = memory.take<double>(Kind::buffers, most, "sums by subtree");
  all_subtrees_ = memory.take<double>(Kind::buffers, most * static_cast<std::size_t>(placement_.ranks), "sums by subtree");
}

Norm GlobalNorm::of(DType dtype, const std::function<Span<const std::byte>(int unit)>& shard) {
  std::size_t at = 0;
  for (std::size_t u = 0; u < holdings_.size(); ++u) {
    const Holding& h = holdings_[u];
    const Range pieces = shard_pieces(h.elements, placement_.rank, placement_.ranks);
    kernels::sum_of_squares_by_piece(dtype, h.shard.size(), shard(static_cast<int>(u)).data(), piece_sums_[u].data());
    for (const double sum : subtree_sums(piece_count(h.elements), pieces, piece_sums_[u])) subtrees_[at++] = sum;
  }
  if (placement_.ranks > 1) {
    placement_.group->all_gather(comm::bytes_of(subtrees_), comm::bytes_of(all_subtrees_)).wait();
  } else {
    std::copy(subtrees_.begin(), subtrees_.end(), all_subtrees_.begin());
  }

  Norm norm;
  double squares = 0;
  std::vector<std::size_t> next(static_cast<std::size_t>(placement_.ranks), 0);
  for (std::size_t u = 0; u < holdings_.size(); ++u) {
    const std::size_t pieces = piece_count(holdings_[u].elements);
    std::vector<Range> owners;
    std::vector<Span<const double>> values;
    for (std::size_t r = 0; r < next.size(); ++r) {
      owners.push_back(shard_pieces(holdings_[u].elements, static_cast<int>(r), placement_.ranks));
      const std::size_t count = subtree_count(pieces, owners[r]);
      values.push_back(all_subtrees_.subspan(r * subtrees_.size() + next[r], count));
      next[r] += count;
    }
    const double sum = join_subtrees(pieces, owners, values);
    if (!std::isfinite(sum)) norm.broken_unit = static_cast<int>(u);
    squares += sum;
  }
  norm.value = std::sqrt(squares);
  return norm;
}

}  // namespace shoal::zero
