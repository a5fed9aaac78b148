// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/timed_execution.hpp"

#include <algorithm>

#include "at.hpp"

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

}  // namespace

OperationKind operation_of(zero::MessageKind message) {
  return message == zero::MessageKind::reduce ? OperationKind::reduce_scatter : OperationKind::all_gather;
}

std::vector<double> use_flops(const zero::StepSchedule& schedule, std::size_t part, Pass pass,
                              const std::vector<model::UnitCost>& costs) {
  const model::UseOrder& uses = schedule.uses(part, pass);
  const model::UseOrder& backward = schedule.uses(part, Pass::backward);
  const auto backward_uses = [&](int unit) {
    return std::any_of(backward.begin(), backward.end(), [&](const auto& units) { return has_unit(units, unit); });
  };
  std::vector<double> flops(uses.size(), 0);
  for (std::size_t use = 0; use < uses.size(); ++use) {
    for (const int unit : uses[use]) {
      const model::UnitCost& cost = costs[at(unit)];
      if (pass != Pass::forward) {
        const bool last = is_last(uses, use, unit);
        const bool again = !last || (pass == Pass::recomputing_backward && is_first(uses, use, unit));
        flops[use] += (again ? cost.forward_flops : 0) + (last ? cost.backward_flops : 0);
      } else if (is_first(uses, use, unit)) {
        flops[use] += backward_uses(unit) ? cost.forward_flops : cost.flops();
      }
    }
  }
  return flops;
}

void TimedExecution::execute(const zero::StepItems& items, const UseSeconds& use_s, double update_s, RankClock& time) {
  for (const zero::StepItem& item : items) {
    std::deque<RankClock::Pending>& pending = pending_[static_cast<std::size_t>(item.message)];
    switch (item.kind) {
      case zero::StepItem::Kind::compute: time.work(use_s[static_cast<std::size_t>(item.pass)][item.number]); break;
      case zero::StepItem::Kind::update: time.work(update_s); break;
      case zero::StepItem::Kind::start: pending.push_back(time.start(operation_of(item.message), messages_.of(item))); break;
      case zero::StepItem::Kind::wait:
        time.wait(pending.front());
        pending.pop_front();
        break;
    }
  }
}

}  // namespace shoal::plan
