// SPDX-License-Identifier: Apache-2.0
#include "zero/sampled_weights.hpp"

namespace shoal::zero {

SampledWeights::SampledWeights(const std::vector<ShardLayout>& layouts, const RankGroups& groups, Memory& memory)
    : layouts_(layouts), groups_(groups) {
  std::size_t granules = 0;
  for (const ShardLayout& layout : layouts_) {
    offsets_.push_back(granules);
    slots_.push_back(granule_count(shard_length(layout.elements, groups_.ranks)));
    granules += slots_.back();
  }
  const auto ranks = static_cast<std::size_t>(groups_.ranks);
  const Use use = ranks == 1 ? Use::kernels : Use::collectives;
  all_ = memory.take<float>(Kind::buffers, granules * ranks, "weights of a sample", use);
  own_ = ranks == 1 ? all_ : memory.take<float>(Kind::buffers, granules, "weights of a sample", use);
  mean_ = memory.take<double>(Kind::buffers, 1, "weights of a sample");
}

kernels::Sample SampledWeights::sample(std::size_t unit) const {
  return {.elements = layouts_[unit].elements,
          .updates = updates_,
          .slots = slots_[unit],
          .offset = offsets_[unit],
          .stride = own_.size()};
}

void SampledWeights::resample(std::uint64_t updates, const std::function<Span<const float>(int unit)>& shard,
                              double correction, double epsilon) {
  updates_ = updates;
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    kernels::draw_sample(sample(u), layouts_[u].shard, shard(static_cast<int>(u)).data(), own_.data() + offsets_[u]);
  }
  if (groups_.ranks > 1) groups_.group->all_gather(comm::bytes_of(own_), comm::bytes_of(all_)).wait();
  for (std::size_t u = 0; u < layouts_.size(); ++u) {
    kernels::weigh_sample(sample(u), correction, epsilon, mean_.data(), all_.data());
  }
}

void SampledWeights::square(int unit, std::size_t first, DType dtype, const void* gradient, Span<double> squares) const {
  kernels::weighted_squares(sample(static_cast<std::size_t>(unit)), all_.data(), first, squares.size(), dtype, gradient,
                            squares.data());
}

}  // namespace shoal::zero
