// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/schedule.hpp"

#include <initializer_list>

namespace shoal::sync {

bool SyncSchedule::has_outer() const {
  if (options_.kind == SyncKind::diloco) return true;
  return options_.kind == SyncKind::slowmo && (options_.slowmo_momentum != 0 || options_.slowmo_lr != 1);
}

bool SyncSchedule::averages_outer() const { return options_.kind == SyncKind::diloco || options_.slowmo_memory_efficient; }

Actions SyncSchedule::actions_after(std::size_t step) const {
  Actions actions;
  if (in_warmup(step)) return actions;
  step -= options_.warmup_steps;
  actions.outer = has_outer() && step % options_.slowmo_frequency == 0;
  if (nodes_ == 1 || options_.kind == SyncKind::diloco || !trains_locally(options_)) return actions;
  if (actions.outer && averages_outer()) return actions;
  if (pushes(options_)) {
    actions.push = true;
  } else {
    actions.average = step % options_.localsgd_frequency == 0;
  }
  return actions;
}

std::vector<SyncCall> SyncSchedule::calls_after(std::size_t step, const InFlight& in_flight) const {
  using enum SyncCall;
  if (ends_warmup(step)) return {wait_for_parameters, start_from_masters, rebuild_parameters};
  const Actions actions = actions_after(step);
  if (overlaps()) {
    // After resuming with other frequencies there may be a mean in flight for which applies_mean() is never true. It is
    // applied before the next one is started.
    const bool applies = in_flight.mean && (applies_mean(step) || averages(step));
    std::vector<SyncCall> calls;
    if (applies) calls = {wait_for_parameters, apply_mean, gather_in_node};
    if (averages(step)) calls.push_back(actions.outer ? start_outer_mean : start_mean);
    if (applies) calls.push_back(rebuild_parameters);
    return calls;
  }
  std::vector<SyncCall> calls;
  const auto add = [&](bool due, std::initializer_list<SyncCall> what) {
    if (due) calls.insert(calls.end(), what);
  };
  add(in_flight.push, {finish_push});
  add(actions.average, {start_mean, apply_mean});
  add(actions.push, {push});
  add(actions.outer && averages_outer(), {start_outer_mean, apply_mean});
  add(actions.outer && !averages_outer(), {outer_update});
  if (calls.empty()) return calls;
  calls.insert(calls.begin(), wait_for_parameters);
  add(true, {gather_in_node, rebuild_parameters});
  return calls;
}

bool SyncSchedule::averages(std::size_t step) const {
  const Actions actions = actions_after(step);
  return nodes_ > 1 && (actions.average || (actions.outer && averages_outer()));
}

bool SyncSchedule::applies_mean(std::size_t step) const {
  return overlaps() && step > options_.average_delay && averages(step - options_.average_delay);
}

bool SyncSchedule::synchronizes(std::size_t step) const {
  if (in_warmup(step)) return nodes_ > 1;
  return overlaps() ? applies_mean(step) : averages(step);
}

// With slowmo_memory_efficient = false each node makes the outer update by itself. After a step with LocalSGD's mean nodes
// agree all the same: the mean comes first, and all nodes have the same outer state.
bool SyncSchedule::nodes_differ_after(std::size_t steps) const {
  return nodes_ > 1 && trains_locally(options_) && steps > options_.warmup_steps && (overlaps() || !synchronizes(steps));
}

std::size_t SyncSchedule::period() const {
  if (nodes_ == 1 || !trains_locally(options_)) return 1;
  if (options_.kind == SyncKind::diloco) return options_.slowmo_frequency;
  if (!pushes(options_)) return options_.localsgd_frequency;
  return has_outer() && averages_outer() ? options_.slowmo_frequency : 0;
}

std::size_t SyncSchedule::pushes_before(std::size_t step) const {
  const std::size_t steps = step - 1 - options_.warmup_steps;
  return has_outer() && averages_outer() ? steps - steps / options_.slowmo_frequency : steps;
}

int SyncSchedule::hop(std::size_t exchange, int nodes) {
  int hops = 0;
  while (1 << hops < nodes) ++hops;
  return hops == 0 ? 0 : 1 << (exchange % static_cast<std::size_t>(hops));
}

}  // namespace shoal::sync
