// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/error.hpp"
#include "shoal/sync/checkpoint.hpp"
#include "shoal/sync/synchroniser.hpp"

namespace shoal::sync {

namespace {

constexpr const char *nodes_number = "sync/nodes", *outer_number = "sync/outer", *common_number = "sync/common",
                     *push_number = "sync/push", *mean_number = "sync/mean", *lost_number = "sync/lost",
                     *pushes_number = "sync/pushes";

}  // namespace

int saved_nodes(const std::map<std::string, double>& numbers) {
  const auto found = numbers.find(nodes_number);
  return found == numbers.end() ? 0 : static_cast<int>(found->second);
}

SyncState Synchroniser::state(std::size_t steps) {
  SyncState state;
  const std::vector<NamedSlice> moments = states_->moment_slices(sub_shards_.sub_shards());
  const bool one_node = groups_.across.ranks == 1;
  if (!schedule_.nodes_differ_after(steps)) state.common = common_parameters();
  if (schedule_.in_warmup(steps) || one_node) append(state.common, moments);
  if (schedule_.in_warmup(steps)) return state;

  wait_for_mean();
  const bool mean_in_flight = average_.in_flight(), push_in_flight = push_ != nullptr && push_->in_flight();
  append(state.common, average_.common_slices(units_, sub_shards_.sub_shards()));
  if (schedule_.averages_outer()) append(state.common, outer_slices());
  if (mean_in_flight) append(state.common, average_.mean_slices(units_, sub_shards_.sub_shards()));

  if (!one_node) append(state.own, states_->moment_slices(zero::States::Which::own));
  const std::vector<NamedSlice> lost = average_.lost_slices(units_);
  append(state.own, lost);
  if (!schedule_.averages_outer()) append(state.own, outer_slices());
  if (push_in_flight) append(state.own, push_->slices(units_));
  if (mean_in_flight) append(state.own, average_.sent_slices(units_));
  if (schedule_.nodes_differ_after(steps)) append(state.own, states_->parameter_slices(zero::States::Which::own));

  state.numbers = {{nodes_number, groups_.across.ranks},
                   {outer_number, schedule_.has_outer() ? 1 : 0},
                   {pushes_number, schedule_.has_pushes() ? 1 : 0},
                   {common_number, average_.in_differences() ? 1 : 0},
                   {push_number, push_in_flight ? 1 : 0},
                   {mean_number, mean_in_flight ? 1 : 0},
                   {lost_number, lost.empty() ? 0 : 1}};
  return state;
}

std::vector<std::string> Synchroniser::restore(const SyncCheckpoint& from, const ReadSlices& read) {
  const auto has = [&](const char* name) {
    const auto found = from.numbers.find(name);
    return found != from.numbers.end() && found->second != 0;
  };
  const int nodes_before = saved_nodes(from.numbers);
  require_input(nodes_before <= 1 || !schedule_.in_warmup(from.steps + 1), "sync.warmup_steps = ", schedule_.warmup_steps(),
                ": the nodes that wrote ", from.name, " trained locally, so they cannot warm up after step ", from.steps,
                "; allowed: up to ", from.steps);
  const bool push = from.same_kind && has(push_number) && push_ != nullptr && overlap_;
  // A mean of parameters cannot be continued as a mean of differences, nor the reverse.
  const bool mean =
      from.same_kind && has(mean_number) && schedule_.overlaps() && has(common_number) == average_.in_differences();
  const bool mean_dropped = has(mean_number) && !mean;
  // Over SGP each node may have outer parameters of its own, over LocalSGD's means it must not. Older checkpoints do not
  // say.
  const bool same_base =
      schedule_.averages_outer() || !from.numbers.contains(pushes_number) || has(pushes_number) == schedule_.has_pushes();
  const bool outer = from.same_kind && same_base && has(outer_number) && schedule_.has_outer() && !mean_dropped;

  start_from_mean();
  std::vector<NamedSlice> slices;
  if (outer) append(slices, outer_slices());
  if (push) append(slices, push_->slices(units_));
  if (mean) {
    append(slices, average_.sent_slices(units_));
    append(slices, average_.mean_slices(units_, sub_shards_.shards()));
  }
  if (has(common_number)) append(slices, average_.common_slices(units_, sub_shards_.shards()));
  if (has(lost_number) && nodes_before == groups_.across.ranks) append(slices, average_.lost_slices(units_));
  if (!slices.empty()) read(slices);
  if (push) push_->restore();
  if (mean) average_.restore();

  std::vector<std::string> notes;
  if (mean_dropped)
    notes.emplace_back("the checkpoint has a mean in flight between nodes that this run cannot continue: it is dropped");
  if (schedule_.has_outer() && !outer && !schedule_.in_warmup(from.steps)) {
    notes.emplace_back("the checkpoint has no outer update that this run can continue: it starts here, with zero momentum");
  }
  return notes;
}

}  // namespace shoal::sync
