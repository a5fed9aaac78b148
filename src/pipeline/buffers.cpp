// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/buffers.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/pipeline/timeline.hpp"
#include "uses.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

constexpr std::size_t send_buffers = 2;

/// Intervals in which the borders of one part and kind are in buffers, in turn order.
using Stays = std::vector<Interval>;

/// The most of them at the same time. One may begin where another ends.
std::size_t most_at_once(const Stays& stays) {
  std::size_t most = 0;
  for (std::size_t first = 0, last = 0; last < stays.size(); ++last) {
    while (stays[first].end <= stays[last].begin) ++first;  // turns end in ascending order
    most = std::max(most, last - first + 1);
  }
  return most;
}

/// The borders of one stage: by kind (0: activations) and part of the stage.
class OfStage {
 public:
  OfStage(const std::vector<Action>& list, const ScheduleShape& shape) : shape_(shape), uses_(uses_of(list, shape)) {
    for (auto* const stays : {&used_, &early_}) stays->fill(std::vector<Stays>(static_cast<std::size_t>(shape.parts)));
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      // Within one stage, the action that makes a border writes to the buffer from which it is read.
      const auto& first_use = shape.stages == 1 ? uses_[i].makes : uses_[i].reads;
      if (first_use) of(used_, *first_use).push_back({static_cast<double>(i), 0});
      for (const Border& border : uses_[i].releases) of(used_, border)[border.turn].end = static_cast<double>(i) + 1;
    }
  }

  /// actions: of this stage, in the timeline of the message.
  void arrives(const TimelineMessage& message, const std::vector<Interval>& actions) {
    const auto released = static_cast<std::size_t>(of(used_, message.border)[message.border.turn].end) - 1;
    of(early_, message.border).push_back({message.time.end, actions[released].end});
  }

  Buffers buffers() {
    const auto parts = static_cast<std::size_t>(shape_.parts);
    Buffers buffers{std::vector<std::size_t>(parts), std::vector<std::size_t>(parts)};
    for (const Action::Kind kind : {forward, backward}) {
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t index = kind == forward ? 0 : 1, turns = used_[index][part].size();
        std::size_t& count = buffers.received(kind)[part];
        count = most_at_once(used_[index][part]);
        if (shape_.stages == 1) continue;
        const std::size_t early = kind == forward ? 0 : most_at_once(early_[index][part]);
        count = std::min(turns, std::max(count + 1, early));
      }
    }
    if (shape_.stages == 1) return buffers;
    for (const Use& use : uses_) {
      if (use.makes) buffers.sent(use.makes->kind) = std::min(buffers.sent(use.makes->kind) + 1, send_buffers);
    }
    return buffers;
  }

 private:
  using ByPart = std::array<std::vector<Stays>, 2>;
  Stays& of(ByPart& stays, const Border& border) {
    return stays[border.kind == forward ? 0 : 1][part_of_stage(shape_, border)];
  }

  ScheduleShape shape_;
  std::vector<Use> uses_;
  ByPart used_;   // from the first use to the last: positions in the list
  ByPart early_;  // from the arrival to the last use: times
};

}  // namespace

std::size_t Buffers::total() const {
  const auto sum = [](const std::vector<std::size_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  return sum(activations) + sum(gradients) + sent_activations + sent_gradients;
}

std::vector<Buffers> buffers_of(const Lists& lists, const ScheduleShape& shape) {
  const Timeline equal = timeline(lists, shape, equal_costs(shape));
  std::vector<OfStage> stages;
  ScheduleShape of_stage = shape;
  for (of_stage.stage = 0; of_stage.stage < shape.stages; ++of_stage.stage) {
    stages.emplace_back(lists[static_cast<std::size_t>(of_stage.stage)], of_stage);
  }
  for (const TimelineMessage& message : equal.messages) {
    const auto to = static_cast<std::size_t>(receiver(shape, message.border));
    stages[to].arrives(message, equal.actions[to]);
  }
  std::vector<Buffers> buffers;
  buffers.reserve(stages.size());
  for (OfStage& stage : stages) buffers.push_back(stage.buffers());
  return buffers;
}

}  // namespace shoal::pipeline
