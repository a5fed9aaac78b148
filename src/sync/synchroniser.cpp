// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/synchroniser.hpp"

#include <algorithm>

#include "shoal/base/trace.hpp"

namespace shoal::sync {

Synchroniser::Synchroniser(const SyncOptions& options, const Surroundings& run, const std::vector<model::UnitLayout>& units,
                           zero::States& states, const Placement& placement, Memory& memory)
    : units_(units),
      states_(&states),
      placement_(placement),
      schedule_(options, placement.across.ranks),
      overlap_(options.sgp_overlap),
      shares_(states, units.size(), placement),
      average_(shares_, placement, sending_of(options, run.quant_block), memory) {
  if (schedule_.has_outer()) {
    outer_.emplace(options, shares_, schedule_.averages_outer() ? shares_.shares() : shares_.shards(), memory);
  }
  if (pushes(options) && placement.across.ranks > 1) {
    push_ = std::make_unique<Push>(shares_, placement, overlap_, memory);
  }
  if (options.warmup_steps > 0 && placement.across.ranks > 1) {
    gradients_.emplace(shares_, placement, run.gradients, memory);
  }
  for (std::size_t u = 0; run.shows && u < units.size(); ++u) {
    own_.push_back(memory.take<float>(Kind::buffers, shares_.shards()[u].size(), "parameters while their mean is shown"));
  }
}

void Synchroniser::begin() {
  average_.begin();
  if (outer_) outer_->begin();
}

bool Synchroniser::acts(std::size_t step) const {
  if (schedule_.begins(step)) return true;
  // A checkpoint may come from a run with another rhythm: one mean is taken in before the next is sent, at the latest.
  if (schedule_.overlaps()) return mean_under_way() && (schedule_.arrives(step) || schedule_.averages(step));
  const Actions actions = schedule_.after(step);
  return actions.average || actions.push || actions.outer || exchange_under_way();
}

void Synchroniser::after(std::size_t step, double learning_rate) {
  const bool acts = this->acts(step), sends = schedule_.overlaps() && schedule_.averages(step);
  if (!acts && !sends) return;
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "synchronise");
  if (schedule_.begins(step)) return begin();
  if (!schedule_.overlaps()) {
    act(step, learning_rate);
  } else if (acts) {
    average_.finish();
  }
  if (acts) average_.gather_in_node();
  if (sends) start(schedule_.after(step), learning_rate);
}

void Synchroniser::act(std::size_t step, double learning_rate) {
  const Actions actions = schedule_.after(step);
  if (push_ != nullptr) push_->finish();
  if (actions.average) {
    start({.average = true}, learning_rate);
    average_.finish();
  }
  if (actions.push) push_->exchange(Schedule::hop(schedule_.pushes_before(step), placement_.across.ranks));
  if (!actions.outer) return;
  if (schedule_.averages_outer()) {
    start(actions, learning_rate);
    average_.finish();
    return;
  }
  for (std::size_t u = 0; u < shares_.units(); ++u) {
    const Range shard = shares_.shards()[u];
    outer_->update(u, shard, shares_.master(u, shard), learning_rate);
  }
}

/// A mean, with the outer update on the way where it is due.
void Synchroniser::start(const Actions& actions, double learning_rate) {
  Average::Update update;
  if (actions.outer) {
    update = [this, learning_rate](std::size_t u, Range share, Span<float> mean) {
      outer_->update(u, share, mean, learning_rate);
    };
  }
  average_.start(std::move(update));
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
  average_.run_exactly();
  average_.gather_in_node();
}

std::vector<NamedSlice> Synchroniser::outer_slices() const {
  return outer_ ? outer_->slices(units_) : std::vector<NamedSlice>();
}

std::vector<NamedSlice> Synchroniser::exchange_slices() {
  return overlaps() ? push_->slices(units_) : std::vector<NamedSlice>();
}

std::vector<NamedSlice> Synchroniser::mean_slices() const {
  std::vector<NamedSlice> result = average_.sent_slices(units_);
  append(result, average_.mean_slices(units_, shares_.shards()));
  return result;
}

std::vector<NamedSlice> Synchroniser::common_slices() {
  arrive();
  std::vector<NamedSlice> result = average_.common_slices(units_, shares_.shares());
  if (schedule_.averages_outer()) append(result, outer_slices());
  if (mean_under_way()) append(result, average_.mean_slices(units_, shares_.shares()));
  return result;
}

std::vector<NamedSlice> Synchroniser::node_slices() {
  arrive();
  std::vector<NamedSlice> result = lost_slices();
  if (!schedule_.averages_outer()) append(result, outer_slices());
  if (exchange_under_way()) append(result, exchange_slices());
  if (mean_under_way()) append(result, average_.sent_slices(units_));
  return result;
}

}  // namespace shoal::sync
