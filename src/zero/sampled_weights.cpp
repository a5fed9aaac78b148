// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/sampled_weights.hpp"

#include <algorithm>
#include <cmath>

namespace shoal::zero {

namespace {

constexpr double least_share = 1e-3;  // of the unit's mean second moment

}  // namespace

SampledWeights::SampledWeights(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory)
    : layouts_(layouts), groups_(groups) {
  std::size_t granules = 0;
  for (const ShardLayout& layout : layouts_) {
    offsets_.push_back(granules);
    slots_.push_back(granule_count(shard_length(layout.elements, groups_.ranks)));
    granules += slots_.back();
  }
  const auto ranks = static_cast<std::size_t>(groups_.ranks);
  all_ = memory.take<float>(Kind::buffers, granules * ranks, "weights of a sample");
  own_ = ranks == 1 ? all_ : memory.take<float>(Kind::buffers, granules, "weights of a sample");
}

/// Index of the sampled element. Multiples of these odd constants modulo 2^32 are spread evenly, from granule to granule and
/// from update to update.
std::size_t SampledWeights::element(int unit, std::size_t granule_index) const {
  const std::size_t begin = granule_index * granule;
  const std::size_t length = std::min(granule, layouts_[static_cast<std::size_t>(unit)].elements - begin);
  const auto draw = static_cast<std::uint32_t>(granule_index * 2654435769U + updates_ * 2246822519U);
  return begin + static_cast<std::size_t>((static_cast<std::uint64_t>(draw) * length) >> 32U);
}

float& SampledWeights::weight(int unit, std::size_t granule_index) const {
  const auto u = static_cast<std::size_t>(unit);
  return all_[granule_index / slots_[u] * own_.size() + offsets_[u] + granule_index % slots_[u]];
}

void SampledWeights::resample(std::uint64_t updates, const std::function<Span<const float>(int unit)>& shard,
                              double correction, double epsilon) {
  updates_ = updates;
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    const int unit = static_cast<int>(u);
    const std::size_t begin = layouts_[u].shard.begin;
    const Span<const float> second = shard(unit);
    for (std::size_t i = 0; i < granule_count(second.size()); ++i) {
      own_[offsets_[u] + i] = second[element(unit, begin / granule + i) - begin];
    }
  }
  if (groups_.ranks > 1) groups_.group->all_gather(comm::bytes_of(own_), comm::bytes_of(all_)).wait();
  for (std::size_t u = 0; u < layouts_.size(); ++u) weigh(static_cast<int>(u), correction, epsilon);
}

/// Replaces second moments by weights; 0 if the whole unit has had no gradient yet.
void SampledWeights::weigh(int unit, double correction, double epsilon) {
  const std::size_t granules = granule_count(layouts_[static_cast<std::size_t>(unit)].elements);
  double mean = 0;
  for (std::size_t i = 0; i < granules; ++i) mean += static_cast<double>(weight(unit, i)) / static_cast<double>(granules);
  for (std::size_t i = 0; i < granules; ++i) {
    const double second = std::max(static_cast<double>(weight(unit, i)), least_share * mean);
    const double divisor = std::sqrt(second / correction) + epsilon;
    weight(unit, i) = mean == 0 ? 0.0F : static_cast<float>(1 / (divisor * divisor));
  }
}

void SampledWeights::square(int unit, std::size_t first, DType dtype, const void* gradient, Span<double> squares) const {
  dispatch(dtype, [&]<typename T>(T) {
    const auto* const values = static_cast<const T*>(gradient);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      const auto value = static_cast<double>(static_cast<float>(values[element(unit, first + i) - first * granule]));
      squares[i] = static_cast<double>(weight(unit, first + i)) * value * value;
    }
  });
}

}  // namespace shoal::zero
