// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/synchroniser.hpp"

#include <algorithm>

#include "shoal/base/trace.hpp"

namespace shoal::sync {

Synchroniser::Synchroniser(const SyncOptions& options, const std::vector<model::UnitLayout>& units, zero::States& states,
                           const Placement& placement, bool shows, Memory& memory)
    : units_(units),
      states_(&states),
      placement_(placement),
      schedule_(options, placement.across.ranks),
      overlap_(options.sgp_overlap),
      shares_(states, units.size(), placement),
      average_(shares_, placement, memory) {
  if (schedule_.has_outer()) {
    outer_.emplace(options, shares_, schedule_.averages_outer() ? shares_.shares() : shares_.shards(), memory);
  }
  if (pushes(options) && placement.across.ranks > 1) {
    push_ = std::make_unique<Push>(shares_, placement, overlap_, memory);
  }
  for (std::size_t u = 0; shows && u < units.size(); ++u) {
    own_.push_back(memory.take<float>(Kind::buffers, shares_.shards()[u].size(), "parameters while their mean is shown"));
  }
}

void Synchroniser::begin() {
  if (outer_) outer_->begin();
}

bool Synchroniser::after(std::size_t step, double learning_rate) {
  const Actions actions = schedule_.after(step);
  const bool waits = push_ != nullptr && push_->under_way();
  if (!actions.average && !actions.push && !actions.outer && !waits) return false;
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "synchronise");
  if (waits) push_->finish();
  if (actions.average) average_.run();
  if (actions.push) push_->exchange(Schedule::hop(schedule_.pushes_before(step), placement_.across.ranks));
  if (actions.outer && schedule_.averages_outer()) {
    average_.run([&](std::size_t u, Range share, Span<float> mean) { outer_->update(u, share, mean, learning_rate); });
  } else if (actions.outer) {
    for (std::size_t u = 0; u < shares_.units(); ++u) {
      const Range shard = shares_.shards()[u];
      outer_->update(u, shard, shares_.master(u, shard), learning_rate);
    }
  }
  average_.gather_in_node();
  return true;
}

void Synchroniser::show_average() {
  for (std::size_t u = 0; u < shares_.units(); ++u) {
    const Span<float> now = shares_.master(u, shares_.shards()[u]);
    std::copy(now.begin(), now.end(), own_[u].begin());
  }
  take_average();
}

void Synchroniser::hide_average() {
  for (std::size_t u = 0; u < shares_.units(); ++u) {
    std::copy(own_[u].begin(), own_[u].end(), shares_.master(u, shares_.shards()[u]).begin());
  }
  average_.gather_in_node();
}

void Synchroniser::take_average() {
  average_.run();
  average_.gather_in_node();
}

std::vector<NamedSlice> Synchroniser::common_slices() const {
  if (!outer_ || !schedule_.averages_outer()) return {};
  return outer_->slices(units_);
}

std::vector<NamedSlice> Synchroniser::node_slices() {
  std::vector<NamedSlice> result;
  if (outer_ && !schedule_.averages_outer()) result = outer_->slices(units_);
  if (push_ != nullptr && overlap_) {
    for (NamedSlice& slice : push_->slices(units_)) result.push_back(std::move(slice));
  }
  return result;
}

}  // namespace shoal::sync
