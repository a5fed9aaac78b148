// SPDX-License-Identifier: Apache-2.0
// Executes the items of a schedule (zero::StepSchedule) with time instead of numbers.
#pragma once

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "shoal/model/costs.hpp"
#include "shoal/plan/rank_clock.hpp"
#include "shoal/plan/step_messages.hpp"

namespace shoal::plan {

OperationKind operation_of(zero::MessageKind message);

/// By pass (StepItem::Pass) and use.
using UseSeconds = std::array<std::vector<double>, 3>;

/// By use of a pass: its operations as model::costs() counts them. A backward pass computes a unit's activations again in
/// all uses but the last; if it finds no activations, and a unit has one use alone, in that. A unit that backward does not
/// use takes all its operations in its first use in forward, as the head does.
std::vector<double> use_flops(const zero::StepSchedule& schedule, std::size_t part, zero::StepItem::Pass pass,
                              const std::vector<model::UnitCost>& costs);

class TimedExecution {
 public:
  explicit TimedExecution(StepMessages messages) : messages_(std::move(messages)) {}

  /// Advances the clock. use_s: of the part whose passes are among the items. Messages stay in flight between calls.
  void execute(const zero::StepItems& items, const UseSeconds& use_s, double update_s, RankClock& time);

 private:
  StepMessages messages_;
  std::array<std::deque<RankClock::Pending>, zero::message_kinds> pending_;  // by kind, oldest first
};

}  // namespace shoal::plan
