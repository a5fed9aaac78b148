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
/// all uses but the last, or repeats what it needs in the only use. A unit that backward does not use takes all its
/// operations in its first use in forward, as the head does. uses: those of the pass. backward: those of Pass::backward of
/// the same part. interval: activation.checkpoint_interval.
std::vector<double> use_flops(const model::UseOrder& uses, const model::UseOrder& backward, zero::StepItem::Pass pass,
                              const std::vector<model::UnitCost>& costs, std::int64_t interval);

class TimedExecution {
 public:
  explicit TimedExecution(StepMessages messages) : messages_(std::move(messages)) {}

  /// Advances the clock. use_s: of the part whose passes are among the items. Messages stay in flight between calls. No item
  /// may be an exchange between the ends of a pipeline.
  void execute(const zero::StepItem& item, const UseSeconds& use_s, double update_s, RankClock& time);
  void execute(const zero::StepItems& items, const UseSeconds& use_s, double update_s, RankClock& time) {
    for (const zero::StepItem& item : items) execute(item, use_s, update_s, time);
  }

 private:
  StepMessages messages_;
  std::array<std::deque<RankClock::Pending>, zero::message_kinds> pending_;  // by kind, oldest first
};

}  // namespace shoal::plan
