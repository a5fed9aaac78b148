// SPDX-License-Identifier: Apache-2.0
#include "plan/simgrid/recorder.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::plan {

using Kind = RecordedAction::Kind;

void Recorder::computes(double seconds) {
  if (!(seconds > 0)) return;
  if (actions_.empty() || actions_.back().kind != Kind::compute) actions_.push_back({});
  actions_.back().seconds += seconds;
}

void Recorder::starts(std::size_t number, OperationKind kind, const Cost& cost, std::size_t after) {
  require_input(static_cast<bool>(cost.steps_of), measured_with_nccl);
  actions_.push_back({Kind::start, 0, number});
  operations_.push_back({kind, cost.control, cost.steps_of, 0});
  after_.push_back(after);
}

void Recorder::waits(std::size_t number) { actions_.push_back({Kind::wait, 0, number}); }

void Recorder::starts_message(std::size_t number) { actions_.push_back({Kind::start_message, 0, number}); }

void Recorder::waits_for_message(std::size_t number) { actions_.push_back({Kind::wait_for_message, 0, number}); }

std::vector<RecordedAction> Recorder::with_lanes(int taken) {
  in_flight_.assign(static_cast<std::size_t>(taken) + 1, 0);  // lane 0 is the rank itself
  std::vector<RecordedAction> actions;
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const RecordedAction& action = actions_[i];
    if (action.kind == Kind::wait) --in_flight_[static_cast<std::size_t>(operations_[action.number].lane)];
    if (action.kind == Kind::start) {
      if (awaited_at_once(i)) {
        actions.push_back(action);
        ++i;  // the wait
        continue;
      }
      int& lane = operations_[action.number].lane;
      lane = free_lane(action.number, taken);
      ++in_flight_[static_cast<std::size_t>(lane)];
    }
    actions.push_back(action);
  }
  lanes_ = static_cast<int>(in_flight_.size()) - 1;
  return actions;
}

int Recorder::free_lane(std::size_t number, int taken) {
  if (after_[number] != number) return operations_[after_[number]].lane;
  const auto free = std::find(in_flight_.begin() + 1 + taken, in_flight_.end(), 0U);
  const auto lane = static_cast<int>(free - in_flight_.begin());
  if (free == in_flight_.end()) in_flight_.push_back(0);
  return lane;
}

bool Recorder::awaited_at_once(std::size_t start) const {
  const RecordedAction& action = actions_[start];
  if (start + 1 == actions_.size() || after_[action.number] != action.number) return false;
  const RecordedAction& next = actions_[start + 1];
  return next.kind == Kind::wait && next.number == action.number;
}

}  // namespace shoal::plan
