// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/synchroniser.hpp"

#include <algorithm>

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

/// Nodes that differ start from their mean if each makes the outer update by itself. From its own parameters each would go
/// its own way for ever.
void Synchroniser::start_from_mean() {
  start_from_masters();
  if (!outer_ || schedule_.averages_outer() || groups_.across.ranks == 1) return;
  average_.run_exactly();
  outer_->swap_parameters();
}

std::vector<SyncCall> Synchroniser::calls_after(std::size_t step) const {
  return schedule_.calls_after(step, {mean_in_flight(), push_ != nullptr && push_->in_flight()});
}

bool Synchroniser::writes_masters(std::size_t step) const {
  const std::vector<SyncCall> calls = calls_after(step);
  return std::find(calls.begin(), calls.end(), SyncCall::rebuild_parameters) != calls.end();
}

void Synchroniser::after_step(std::size_t step, double learning_rate) {
  const std::vector<SyncCall> calls = calls_after(step);
  if (calls.empty()) return;
  const trace::Region region(trace::Level::steps, trace::Kind::phase, "synchronise");
  for (const SyncCall call : calls) execute(call, step, learning_rate);
}

void Synchroniser::execute(SyncCall call, std::size_t step, double learning_rate) {
  switch (call) {
    case SyncCall::wait_for_parameters:
    case SyncCall::rebuild_parameters: return;  // the caller's
    case SyncCall::start_from_masters: return start_from_masters();
    case SyncCall::finish_push: return push_->finish();
    case SyncCall::start_mean: return average_.start();
    case SyncCall::start_outer_mean:
      return average_.start([this, learning_rate](std::size_t u, Range sub_shard, Span<float> mean) {
        outer_->update(u, sub_shard, mean, learning_rate);
      });
    case SyncCall::apply_mean: return average_.apply_mean();
    case SyncCall::push: return push_->exchange(SyncSchedule::hop(schedule_.pushes_before(step), groups_.across.ranks));
    case SyncCall::gather_in_node: return average_.gather_in_node();
    case SyncCall::outer_update: break;
  }
  for (std::size_t u = 0; u < sub_shards_.units(); ++u) {
    const Range shard = sub_shards_.shards()[u];
    outer_->update(u, shard, sub_shards_.master(u, shard), learning_rate);
  }
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
