// SPDX-License-Identifier: Apache-2.0
// When each stage computes what, if the times of the parts are known: the lists of all stages, executed in simulated time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "shoal/pipeline/border.hpp"
#include "shoal/pipeline/buffer_counts.hpp"

namespace shoal::pipeline {

struct Interval {
  double begin = 0, end = 0;
  double length() const { return end - begin; }
  bool operator==(const Interval&) const = default;
};

/// In any unit of time.
struct PassTimes {
  double forward = 1, backward = 2;
};
struct TimelineCosts {
  std::vector<PassTimes> parts;  ///< by part of the model
  double message = 0;            ///< from the end of an action until its border can be read on another stage
  /// The same by border: between the parts m and m + 1 of the model. Empty: `message` for each.
  std::vector<double> messages = {};
  double skip = 0;  ///< of a message of the skip connection, if `messages` is not empty
  /// If set, how long an action of a stage's list takes that begins then, in place of the times of its part. Each stage's
  /// actions are asked for once, in the order of its list.
  std::function<double(std::size_t stage, std::size_t action, double begin)> takes = {};
  double message_of(const Border& border) const {
    if (messages.empty()) return message;
    if (border.skip) return skip;
    const int between = border.kind == Action::Kind::forward ? border.part - 1 : border.part;
    return messages[static_cast<std::size_t>(between)];
  }
};
/// All parts take the same time, and messages take `message` of it.
TimelineCosts equal_costs(const ScheduleShape& shape, double message = 0);

struct TimelineMessage {
  Border border;
  Interval time;
};

struct Timeline {
  std::vector<std::vector<Interval>> actions;  ///< by stage, in the order of its list
  /// In an order in which they can be sent one by one: by their ends, and if those are equal, each after all that it depends
  /// on. Empty for one stage, which sends none.
  std::vector<TimelineMessage> messages;
  double step = 0;  ///< the end of the last action of all stages

  /// Time in which this stage computes nothing, as a share of the step; the mean over all stages.
  double idle_share(std::size_t stage) const;
  double idle_share() const;
};

/// Each stage takes the actions of its list in order, each as soon as its border has arrived. The messages
/// of one part and kind follow each other; others do not delay each other, and none delays the stages. shape.stage does not
/// matter. buffers: of all stages; a border is then sent only when its receiver has a free buffer, and an action begins only
/// if there is one for what it makes. Null: no limit. fail() if the stages wait for each other for ever. Time grows with the
/// number of actions.
Timeline timeline(const Lists& lists, const ScheduleShape& shape, const TimelineCosts& costs,
                  const std::vector<Buffers>* buffers = nullptr);

}  // namespace shoal::pipeline
