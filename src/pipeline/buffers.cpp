// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/buffers.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/pipeline/timeline.hpp"
#include "shoal/pipeline/uses.hpp"

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

/// Of one stage, the stays of borders that it receives, or with one stage of all.
class AllStays {
 public:
  explicit AllStays(const ScheduleShape& shape) : shape_(shape) {
    of_parts_.fill(std::vector<Stays>(static_cast<std::size_t>(shape.parts)));
  }
  Stays& of(const Border& border) {
    const std::size_t kind = border.kind == forward ? 0 : 1;
    return border.skip ? of_skip_[kind] : of_parts_[kind][part_of_stage(shape_, border)];
  }

 private:
  ScheduleShape shape_;
  std::array<std::vector<Stays>, 2> of_parts_;  // by kind and part of the stage
  std::array<Stays, 2> of_skip_;
};

/// The borders of one stage.
class OfStage {
 public:
  OfStage(const std::vector<Action>& list, const ScheduleShape& shape)
      : shape_(shape), uses_(uses_of(list, shape)), used_(shape), early_(shape), early_if_slow_(shape) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      // Within one stage, the action that makes a border writes to the buffer from which it is read.
      for (const Border& border : shape.stages == 1 ? uses_[i].makes : uses_[i].reads) {
        used_.of(border).push_back({static_cast<double>(i), 0});
      }
      for (const Border& border : uses_[i].releases) used_.of(border)[border.turn].end = static_cast<double>(i) + 1;
    }
  }

  /// actions: of this stage, in the timeline of the message. slow: messages take time in this timeline.
  void arrives(const TimelineMessage& message, const std::vector<Interval>& actions, bool slow) {
    const auto released = static_cast<std::size_t>(used_.of(message.border)[message.border.turn].end) - 1;
    (slow ? early_if_slow_ : early_).of(message.border).push_back({message.time.begin, actions[released].end});
  }

  Buffers buffers() {
    const auto parts = static_cast<std::size_t>(shape_.parts);
    Buffers buffers{std::vector<std::size_t>(parts), std::vector<std::size_t>(parts)};
    for (const Action::Kind kind : {forward, backward}) {
      for (std::size_t part = 0; part < parts; ++part) {
        const Border border{kind, static_cast<int>(part) * shape_.stages, 0};
        buffers.received(border, part) = received(border, kind == forward ? 0 : most_at_once(early_.of(border)));
      }
      const Border skip{kind, 0, 0, true};
      std::size_t& count = buffers.received(skip, 0);
      count = received(skip, std::max(most_at_once(early_.of(skip)), most_at_once(early_if_slow_.of(skip))));
      if (count > 0 && kind == forward && parts > 1) count = std::max(count, static_cast<std::size_t>(shape_.stages));
    }
    if (shape_.stages == 1) return buffers;
    for (const Use& use : uses_) {
      for (const Border& border : use.makes) buffers.sent(border) = std::min(buffers.sent(border) + 1, send_buffers);
    }
    return buffers;
  }

 private:
  /// early: the most that wait in timelines.
  std::size_t received(const Border& like, std::size_t early) {
    const std::size_t in_use = most_at_once(used_.of(like));
    return shape_.stages == 1 ? in_use : std::min(used_.of(like).size(), std::max(in_use + 1, early));
  }

  ScheduleShape shape_;
  std::vector<Use> uses_;
  AllStays used_;                   // from the first use to the last: positions in the list
  AllStays early_, early_if_slow_;  // from the begin of the message to the last use: times
};

}  // namespace

std::vector<Buffers> buffers_of(const Lists& lists, const ScheduleShape& shape) {
  std::vector<OfStage> stages;
  ScheduleShape of_stage = shape;
  for (of_stage.stage = 0; of_stage.stage < shape.stages; ++of_stage.stage) {
    stages.emplace_back(lists[static_cast<std::size_t>(of_stage.stage)], of_stage);
  }
  for (const bool slow : {false, true}) {
    if (slow && !shape.skip) continue;
    const Timeline equal = timeline(lists, shape, equal_costs(shape, slow ? 1 : 0));
    for (const TimelineMessage& message : equal.messages) {
      const auto to = static_cast<std::size_t>(receiver(shape, message.border));
      stages[to].arrives(message, equal.actions[to], slow);
    }
  }
  std::vector<Buffers> buffers;
  buffers.reserve(stages.size());
  for (OfStage& stage : stages) buffers.push_back(stage.buffers());
  return buffers;
}

}  // namespace shoal::pipeline
