// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/outer.hpp"

#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/outer.hpp"

namespace shoal::sync {

Outer::Outer(const SyncOptions& options, const SubShards& sub_shards, const std::vector<Range>& ranges, Memory& memory)
    : options_(options), sub_shards_(&sub_shards), ranges_(ranges) {
  for (const Range range : ranges_) {
    parameters_.push_back(memory.take<float>(Kind::master, range.size(), "outer parameters"));
    momentum_.push_back(memory.take<float>(Kind::moments, range.size(), "outer momentum"));
  }
}

void Outer::reset() {
  for (std::size_t u = 0; u < ranges_.size(); ++u) {
    const Span<float> now = sub_shards_->master(u, ranges_[u]);
    kernels::copy_bytes(now.size_bytes(), now.data(), parameters_[u].data());
    kernels::fill(momentum_[u].size(), 0, momentum_[u].data());
  }
}

void Outer::swap_parameters() {
  for (std::size_t u = 0; u < ranges_.size(); ++u) {
    kernels::swap(parameters_[u].size(), parameters_[u].data(), sub_shards_->master(u, ranges_[u]).data());
  }
}

void Outer::update(std::size_t unit, Range range, Span<float> x, double inner_rate) {
  const std::size_t first = range.begin - ranges_[unit].begin;
  const Span<float> outer = parameters_[unit].subspan(first, range.size());
  float* const u = momentum_[unit].subspan(first, range.size()).data();
  const kernels::OuterStep step = {static_cast<float>(options_.slowmo_momentum), static_cast<float>(options_.slowmo_lr),
                                   static_cast<float>(inner_rate)};
  if (options_.kind == SyncKind::diloco) {
    kernels::outer_nesterov(x.size(), step, outer.data(), u, x.data());
  } else if (step.inner_rate > 0) {
    kernels::slow_momentum(x.size(), step, outer.data(), u, x.data());
  } else {
    kernels::copy_bytes(x.size_bytes(), x.data(), outer.data());
  }
}

std::vector<NamedSlice> Outer::slices(const std::vector<model::UnitLayout>& units) const {
  std::vector<NamedSlice> result = zero::named_slices(units, "/outer/parameters/", ranges_, parameters_, ranges_);
  append(result, zero::named_slices(units, "/outer/momentum/", ranges_, momentum_, ranges_));
  return result;
}

}  // namespace shoal::sync
