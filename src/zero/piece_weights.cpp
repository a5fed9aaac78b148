// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/piece_weights.hpp"

#include <algorithm>
#include <cmath>

#include "shoal/kernels/reduce.hpp"

namespace shoal::zero {

PieceWeights::PieceWeights(const std::vector<Holding>& holdings, const Placement& placement, Memory& memory)
    : holdings_(holdings), placement_(placement) {
  std::size_t pieces = 0;
  for (const Holding& h : holdings_) {
    offsets_.push_back(pieces);
    slots_.push_back(piece_count(shard_length(h.elements, placement_.ranks)));
    pieces += slots_.back();
  }
  const auto ranks = static_cast<std::size_t>(placement_.ranks);
  all_ = memory.take<double>(Kind::buffers, pieces * ranks, "weights by piece");
  own_ = ranks == 1 ? all_ : memory.take<double>(Kind::buffers, pieces, "weights by piece");
}

void PieceWeights::refresh(const std::function<Span<const float>(int unit)>& shard, double correction, double epsilon) {
  for (std::size_t u = 0; u < holdings_.size(); ++u) {
    const Span<const float> second = shard(static_cast<int>(u));
    const Span<double> weights = own_.subspan(offsets_[u], piece_count(second.size()));
    kernels::sum_by_piece(second.size(), second.data(), weights.data());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto elements = static_cast<double>(std::min(piece, second.size() - i * piece));
      const double divisor = std::sqrt(weights[i] / (elements * correction)) + epsilon;
      weights[i] = weights[i] == 0 ? 0 : 1 / (divisor * divisor);
    }
  }
  if (placement_.ranks > 1) placement_.group->all_gather(comm::bytes_of(own_), comm::bytes_of(all_)).wait();
}

void PieceWeights::apply(int unit, std::size_t first, Span<double> sums) const {
  const auto u = static_cast<std::size_t>(unit);
  const std::size_t rank_pieces = own_.size(), slot = slots_[u];
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t at = first + i;
    sums[i] *= all_[at / slot * rank_pieces + offsets_[u] + at % slot];
  }
}

}  // namespace shoal::zero
