// SPDX-License-Identifier: Apache-2.0
// Runs the lists of all stages of a pipeline, with nothing but their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/pipeline/schedule.hpp"

namespace shoal::pipeline::test {

using Lists = std::vector<std::vector<Action>>;  // by stage

inline Lists lists(Schedule schedule, ScheduleShape shape) {
  Lists all;
  for (shape.stage = 0; shape.stage < shape.stages; ++shape.stage) all.push_back(actions_of(schedule, shape));
  return all;
}

/// A pass of one part of the model: forward or backward, part of the model, turn.
using Pass = std::tuple<bool, int, std::uint32_t>;

inline Pass pass_of(const Action& action, const ScheduleShape& shape, int stage) {
  ScheduleShape of_stage = shape;
  of_stage.stage = stage;
  return {action.kind == Action::Kind::forward, part_of_model(of_stage, action.part), action.turn};
}

/// The pass whose output this one needs; the same pass if there is none (the first part's forward).
inline Pass before(const Pass& pass, int parts_of_model) {
  const auto [forward, part, turn] = pass;
  if (forward) return {true, std::max(0, part - 1), turn};
  return part + 1 == parts_of_model ? Pass{true, part, turn} : Pass{false, part + 1, turn};
}

/// The end of the last action if a forward pass takes 1 and a backward pass `backward`, messages take no time, and each
/// stage computes its list in order. -1 if the stages wait for each other forever.
inline double span(const Lists& all, const ScheduleShape& shape, double backward) {
  std::map<Pass, double> end;
  std::vector<std::size_t> next(all.size());
  std::vector<double> clock(all.size());
  for (bool moved = true; std::exchange(moved, false);) {
    for (std::size_t s = 0; s < all.size(); ++s) {
      for (; next[s] < all[s].size(); ++next[s], moved = true) {
        const Pass pass = pass_of(all[s][next[s]], shape, static_cast<int>(s)),
                   needed = before(pass, shape.stages * shape.parts);
        if (needed != pass && !end.contains(needed)) break;
        clock[s] = std::max(clock[s], needed == pass ? 0 : end[needed]) + (std::get<0>(pass) ? 1 : backward);
        end[pass] = clock[s];
      }
    }
  }
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (next[s] < all[s].size()) return -1;
  }
  return *std::max_element(clock.begin(), clock.end());
}

/// One stage with bounded memory for messages. (On one stage nothing is sent: each part reads the output of the one before
/// it.) A send takes one of `send_buffers` until the receiver has posted the receive (so with none free the stage waits).
/// Receives are posted in the order of the list: that of a forward pass needs a free slot of its part, which the backward
/// pass of the part's turn frees.
class BoundedStage {
 public:
  BoundedStage(const std::vector<Action>& list, const ScheduleShape& shape, int stage, std::size_t send_buffers)
      : list_(list), shape_(shape), stage_(stage), send_buffers_(send_buffers), free_(slots(list)) {}

  bool done() const { return next_ == list_.size() && unsent_.empty(); }

  /// Does what is possible; returns true if that is anything. others: all stages, to which messages are delivered.
  bool advance(std::vector<BoundedStage>& others) {
    bool moved = deliver(others);
    while (posts()) moved = true;
    while (next_ < list_.size() && computes(others)) {
      moved = true;
      while (posts()) {
      }
    }
    return moved;
  }

 private:
  int last() const { return shape_.stages * shape_.parts - 1; }

  bool posts() {
    if (posted_ == list_.size()) return false;
    const Action& action = list_[posted_];
    const Pass pass = pass_of(action, shape_, stage_);
    if (std::get<0>(pass)) {
      if (free_[action.part] == 0) return false;
      --free_[action.part];
    }
    expected_.insert(pass);
    ++posted_;
    return true;
  }

  bool deliver(std::vector<BoundedStage>& others) {
    const auto left = std::remove_if(unsent_.begin(), unsent_.end(), [&](const Pass& to) {
      BoundedStage& other = others[static_cast<std::size_t>(std::get<1>(to) % shape_.stages)];
      if (!other.expected_.contains(to)) return false;
      other.arrived_.insert(to);
      return true;
    });
    const bool moved = left != unsent_.end();
    unsent_.erase(left, unsent_.end());
    return moved;
  }

  bool computes(std::vector<BoundedStage>& others) {
    const Action& action = list_[next_];
    const Pass pass = pass_of(action, shape_, stage_);
    const auto [forward, part, turn] = pass;
    const bool several = shape_.stages > 1;
    const bool receives = several && (forward ? part > 0 : part < last()),
               sends = several && (forward ? part < last() : part > 0);
    if (next_ >= posted_ || (receives && !arrived_.contains(pass))) return false;
    deliver(others);
    if (sends && unsent_.size() == send_buffers_) return false;
    if (sends) unsent_.push_back({forward, forward ? part + 1 : part - 1, turn});
    deliver(others);
    if (!forward) ++free_[action.part];
    ++next_;
    return true;
  }

  std::vector<Action> list_;
  ScheduleShape shape_;
  int stage_;
  std::size_t send_buffers_;
  std::vector<std::size_t> free_;  // slots by part
  std::size_t next_ = 0, posted_ = 0;
  std::set<Pass> expected_, arrived_;
  std::vector<Pass> unsent_;
};

/// Returns true if all lists run to their ends with this many send buffers per stage.
inline bool runs(const Lists& all, const ScheduleShape& shape, std::size_t send_buffers) {
  std::vector<BoundedStage> stages;
  for (std::size_t s = 0; s < all.size(); ++s) stages.emplace_back(all[s], shape, static_cast<int>(s), send_buffers);
  for (bool moved = true; std::exchange(moved, false);) {
    for (BoundedStage& stage : stages) moved = stage.advance(stages) || moved;
  }
  return std::all_of(stages.begin(), stages.end(), [](const BoundedStage& stage) { return stage.done(); });
}

}  // namespace shoal::pipeline::test
