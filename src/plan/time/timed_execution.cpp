// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/timed_execution.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "plan/costs/at.hpp"
#include "shoal/base/error.hpp"
#include "shoal/model/segment_length.hpp"

namespace shoal::plan {

namespace {

using Pass = zero::StepItem::Pass;

bool has_unit(const std::vector<int>& units, int unit) { return std::find(units.begin(), units.end(), unit) != units.end(); }

/// In the order of uses, whether this is the first use of a unit, or the last one.
bool is_first(const model::UseOrder& uses, std::size_t use, int unit) {
  return std::none_of(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(use),
                      [&](const std::vector<int>& units) { return has_unit(units, unit); });
}
bool is_last(const model::UseOrder& uses, std::size_t use, int unit) {
  return std::none_of(uses.begin() + static_cast<std::ptrdiff_t>(use) + 1, uses.end(),
                      [&](const std::vector<int>& units) { return has_unit(units, unit); });
}

std::set<int> all_units(const model::UseOrder& uses) {
  std::set<int> all;
  for (const std::vector<int>& units : uses) all.insert(units.begin(), units.end());
  return all;
}

/// Those of a part's layers whose activations are in memory when backward begins.
std::set<int> last_segment(const std::set<int>& layers, std::int64_t interval) {
  if (layers.empty()) return {};
  const auto length = static_cast<std::ptrdiff_t>(model::segment_length(layers.size(), interval));
  return {std::prev(layers.end(), length), layers.end()};
}

}  // namespace

OperationKind operation_of(zero::MessageKind message) {
  return message == zero::MessageKind::reduce ? OperationKind::reduce_scatter : OperationKind::all_gather;
}

std::vector<double> use_flops(const model::UseOrder& uses, const model::UseOrder& backward, Pass pass,
                              const std::vector<model::UnitCost>& costs, std::int64_t interval) {
  const std::set<int> layers = all_units(backward);
  const std::set<int> kept = pass == Pass::backward ? last_segment(layers, interval) : std::set<int>();
  std::vector<double> flops(uses.size(), 0);
  for (std::size_t use = 0; use < uses.size(); ++use) {
    for (const int unit : uses[use]) {
      const model::UnitCost& cost = costs[at(unit)];
      const bool first = is_first(uses, use, unit), last = is_last(uses, use, unit);
      if (pass == Pass::forward) {
        if (first) flops[use] += layers.count(unit) > 0 ? cost.forward_flops : cost.flops();
      } else if (!last) {
        flops[use] += cost.forward_flops;
      } else {
        flops[use] += cost.backward_flops + (first && kept.count(unit) == 0 ? cost.repeated_flops : 0);
      }
    }
  }
  return flops;
}

void TimedExecution::execute(const zero::StepItem& item, const UseSeconds& use_s, double update_s, RankClock& time) {
  std::deque<RankClock::Pending>& pending = pending_[static_cast<std::size_t>(item.message)];
  switch (item.kind) {
    case zero::StepItem::Kind::compute: time.work(use_s[static_cast<std::size_t>(item.pass)][item.number]); break;
    case zero::StepItem::Kind::update: time.work(update_s); break;
    case zero::StepItem::Kind::start: pending.push_back(time.start(operation_of(item.message), messages_.of(item))); break;
    case zero::StepItem::Kind::wait:
      time.wait(pending.front());
      pending.pop_front();
      break;
    case zero::StepItem::Kind::exchange: fail("a rank has no clock for messages to another stage");
  }
}

}  // namespace shoal::plan
