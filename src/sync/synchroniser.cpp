// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/synchroniser.hpp"

#include "shoal/base/trace.hpp"
#include "shoal/kernels/bytes.hpp"

namespace shoal::sync {

Synchroniser::Synchroniser(const SyncOptions& options, const SyncContext& run, const std::vector<model::UnitLayout>& units,
                           zero::States& states, const NodeGroups& groups, Memory& memory)
    : units_(units),
      states_(&states),
      groups_(groups),
      schedule_(options, groups.across.ranks),
      overlap_(options.sgp_overlap),
      sub_shards_(states, units.size(), groups),
      average_(sub_shards_, groups, sending_of(options, run.quant_block), memory) {
  if (schedule_.has_outer()) {
    outer_.emplace(options, sub_shards_, schedule_.averages_outer() ? sub_shards_.sub_shards() : sub_shards_.shards(),
                   memory);
  }
  if (pushes(options) && groups.across.ranks > 1) {
    push_ = std::make_unique<Push>(sub_shards_, groups, overlap_, memory);
  }
  if (options.warmup_steps > 0 && groups.across.ranks > 1) {
    gradients_.emplace(sub_shards_, groups, run.gradients, memory);
  }
  for (std::size_t u = 0; run.shows && u < units.size(); ++u) {
    own_.push_back(
        memory.take<float>(Kind::buffers, sub_shards_.shards()[u].size(), "parameters while their mean is shown"));
  }
}

void Synchroniser::start_from_masters() {
  average_.set_reference();
  if (outer_) outer_->reset();
}

bool Synchroniser::writes_masters(std::size_t step) const {
  if (schedule_.ends_warmup(step)) return true;
  // After resuming with other frequencies there may be a mean in flight for which applies_mean() is never true. It
  // is applied before the next one is started.
  if (schedule_.overlaps()) return mean_in_flight() && (schedule_.applies_mean(step) || schedule_.averages(step));
  const Actions actions = schedule_.actions_after(step);
  return actions.average || actions.push || actions.outer || (push_ != nullptr && push_->in_flight());
}

void Synchroniser::after_step(std::size_t step, double learning_rate) {
  const bool acts = this->writes_masters(step), sends = schedule_.overlaps() && schedule_.averages(step);
  if (!acts && !sends) return;
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "synchronise");
  if (schedule_.ends_warmup(step)) return start_from_masters();
  if (!schedule_.overlaps()) {
    act(step, learning_rate);
  } else if (acts) {
    average_.apply_mean();
  }
  if (acts) average_.gather_in_node();
  if (sends) start(schedule_.actions_after(step), learning_rate);
}

void Synchroniser::act(std::size_t step, double learning_rate) {
  const Actions actions = schedule_.actions_after(step);
  if (push_ != nullptr) push_->finish();
  if (actions.average) {
    start({.average = true}, learning_rate);
    average_.apply_mean();
  }
  if (actions.push) push_->exchange(SyncSchedule::hop(schedule_.pushes_before(step), groups_.across.ranks));
  if (!actions.outer) return;
  if (schedule_.averages_outer()) {
    start(actions, learning_rate);
    average_.apply_mean();
    return;
  }
  for (std::size_t u = 0; u < sub_shards_.units(); ++u) {
    const Range shard = sub_shards_.shards()[u];
    outer_->update(u, shard, sub_shards_.master(u, shard), learning_rate);
  }
}

/// Starts a mean, with the outer update if it is due.
void Synchroniser::start(const Actions& actions, double learning_rate) {
  Average::Update update;
  if (actions.outer) {
    update = [this, learning_rate](std::size_t u, Range sub_shard, Span<float> mean) {
      outer_->update(u, sub_shard, mean, learning_rate);
    };
  }
  average_.start(std::move(update));
}

void Synchroniser::swap_in_mean() {
  for (std::size_t u = 0; u < sub_shards_.units(); ++u) {
    const Span<float> now = sub_shards_.master(u, sub_shards_.shards()[u]);
    kernels::copy_bytes(now.size_bytes(), now.data(), own_[u].data());
  }
  replace_by_mean();
}

void Synchroniser::restore_own() {
  for (std::size_t u = 0; u < sub_shards_.units(); ++u) {
    const Span<float> now = sub_shards_.master(u, sub_shards_.shards()[u]);
    kernels::copy_bytes(own_[u].size_bytes(), own_[u].data(), now.data());
  }
  average_.gather_in_node();
}

void Synchroniser::replace_by_mean() {
  average_.run_exactly();
  average_.gather_in_node();
}

std::vector<NamedSlice> Synchroniser::outer_slices() const {
  return outer_ ? outer_->slices(units_) : std::vector<NamedSlice>();
}

}  // namespace shoal::sync
