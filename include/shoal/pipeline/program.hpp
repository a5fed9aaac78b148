// SPDX-License-Identifier: Apache-2.0
// A stage's list together with its messages: when each is started, and in which buffer its border lies. All of it is known
// before the first step.
#pragma once

#include <optional>
#include <vector>

#include "shoal/pipeline/border.hpp"
#include "shoal/pipeline/buffers.hpp"

namespace shoal::pipeline {

/// Where a border lies on a stage: in a buffer that it was received into, or in one that it is sent from.
struct Place {
  bool sent = false;
  Action::Kind kind = Action::Kind::forward;
  std::size_t part = 0;    ///< of the stage; 0 if it is sent
  std::size_t buffer = 0;  ///< index among those of this part and kind, or among the send buffers of this kind
  bool skip = false;       ///< the buffers are those of the skip connection
  bool operator==(const Place&) const = default;
};

/// A message that is started.
struct Call {
  Border border;
  bool sends = false;
  int other = 0;  ///< the stage that receives or sends it
  Place place;
};

struct Step {
  std::vector<Call> before;  ///< messages that are started before the action, in this order
  Action action;
  std::optional<Place> in, out, skip_in, skip_out;
};

struct Program {
  ScheduleShape shape;
  std::vector<Step> steps;
  std::vector<Call> after;  ///< messages that are started after the last action
};

/// The order in which a stage starts its messages.
enum class Order : std::uint8_t {
  /// Receives as soon as a buffer is free, each part and kind for itself, and sends as soon as the border is made. For
  /// messages that do not wait for each other.
  early,
  /// All stages start their messages in one order: that in which they are sent in the timeline of equal parts with these
  /// buffers. For messages that are carried out one after another on each stage (comm::Communicator::queued()): the first
  /// message that is not complete is then always the next one of both of its stages, so stages cannot wait for each other.
  /// Each stage starts its first message without waiting for another stage, so all can make NCCL's communicators then.
  /// Collectives among the data-parallel ranks of a stage lie between the same messages on all of these ranks. So pipelines
  /// that go on side by side do not wait for them, and in every other order of events they come to their ends, too.
  one_by_one,
};

/// The program of stage shape.stage. lists and buffers are those of all stages; the lists' turns are 0, 1, 2, ... fail() if
/// the stages would wait for each other for ever with these buffers. An evaluation may use the buffers of training.
Program program_of(const Lists& lists, const ScheduleShape& shape, const std::vector<Buffers>& buffers, Order order);

}  // namespace shoal::pipeline
