// SPDX-License-Identifier: Apache-2.0
// Which steps of a period have which synchronizations.
#include <algorithm>
#include <numeric>

#include "shoal/plan/sync_costs.hpp"

namespace shoal::plan {

namespace {

bool starts_mean(sync::SyncCall call) {
  return call == sync::SyncCall::start_mean || call == sync::SyncCall::start_outer_mean;
}

}  // namespace

std::vector<SyncEvent> events_in_order(const sync::SyncOptions& given, int nodes) {
  sync::SyncOptions options = given;
  options.warmup_steps = 0;
  const sync::SyncSchedule schedule(options, nodes);
  if (!sync::trains_locally(options)) return {SyncEvent{{}, 0, 1, 1}};
  std::size_t steps = 1;
  if (schedule.has_outer()) steps = options.slowmo_frequency;
  if (options.kind != sync::SyncKind::diloco && !sync::pushes(options)) steps = std::lcm(steps, options.localsgd_frequency);
  if (sync::pushes(options)) {
    std::size_t distances = 1;  // number of different hops, which follow each other
    while (1 << distances < nodes) ++distances;
    steps *= distances;
  }
  // Steps that run while an average is in flight belong to the event that started it. If the delay reaches the step that
  // starts the next average, that step belongs to the next event.
  const std::size_t between = schedule.overlaps() ? schedule.period() : 1;
  const std::size_t overlapped = std::min(options.average_delay, between - 1);
  std::vector<SyncEvent> events;
  for (std::size_t step = 1; step <= steps; ++step) {
    if (step % between != 0 && step % between <= overlapped) continue;
    const sync::Actions now = schedule.actions_after(step);
    const int hop = now.push ? sync::SyncSchedule::hop(schedule.pushes_before(step), nodes) : 0;
    SyncEvent& event = events.emplace_back(SyncEvent{now, hop, 1, schedule.averages(step) ? 1 + overlapped : 1});
    // A push is in flight since the step before, and so is a mean that is awaited where the next one starts.
    const bool push = options.sgp_overlap && sync::pushes(options) && nodes > 1;
    event.calls = schedule.calls_after(step, {schedule.overlaps() && event.steps == 1, push});
    event.reports = schedule.averages(step);
    if (event.steps == 1) continue;
    event.last_calls = schedule.calls_after(step + options.average_delay, {true, false});
    std::erase_if(event.last_calls, starts_mean);  // that is the next event's
  }
  return events;
}

Period period_of(const sync::SyncOptions& options, int nodes) {
  Period period;
  period.steps = 0;
  for (const SyncEvent& event : events_in_order(options, nodes)) {
    period.steps += event.steps;
    const sync::Actions& now = event.actions;
    const auto same = [&](const SyncEvent& other) {
      const sync::Actions& then = other.actions;
      return then.average == now.average && then.push == now.push && then.outer == now.outer && other.hop == event.hop &&
             other.steps == event.steps;
    };
    const auto found = std::find_if(period.events.begin(), period.events.end(), same);
    if (found == period.events.end()) {
      period.events.push_back(event);
    } else {
      ++found->times;
    }
  }
  return period;
}

}  // namespace shoal::plan
