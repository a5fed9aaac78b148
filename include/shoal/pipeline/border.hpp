// SPDX-License-Identifier: Apache-2.0
// What the parts of a model hand to each other: the activations that go forward, and their gradients, which come back. Part
// m sends both to the stages of its neighbours m + 1 and m - 1. With one stage these are parts of the same rank.
//
// A model may have a skip connection, whose activations the first part makes and the last one reads. They are sent from the
// one to the other directly, and their gradients directly back (the portals of torchgpipe, Kim et al. 2020). The last part
// makes these gradients in its forward pass, since the head's backward pass follows its losses there
// (model::Model::forward()):
//
//   part 0   F --.                          .--> B        F: a forward pass
//   part 1       |  F                   B   |             B: a backward pass
//   part 2       '---> F           B        |
//                      '--- gradients ------'
#pragma once

#include <optional>
#include <string>

#include "shoal/pipeline/schedule.hpp"

namespace shoal::pipeline {

/// The lists of all stages.
using Lists = std::vector<std::vector<Action>>;
/// What each stage computes in a step. shape.stage does not matter.
Lists lists_of(Schedule schedule, const ScheduleShape& shape);
/// The same of an evaluation: forward_only() for each stage.
Lists evaluation_lists(const ScheduleShape& shape);

inline int parts_of_model(const ScheduleShape& shape) { return shape.stages * shape.parts; }

/// What one part computes for another in one turn.
struct Border {
  Action::Kind kind = Action::Kind::forward;  ///< forward: activations; backward: the gradients of activations
  int part = 0;                               ///< of the model: the one that receives it
  std::uint32_t turn = 0;
  bool skip = false;  ///< of the skip connection: between the first part and the last one
  bool operator==(const Border&) const = default;
};

/// The border that an action of stage shape.stage reads, and the one that it makes; none at the ends of the model.
std::optional<Border> border_read(const ScheduleShape& shape, const Action& action);
std::optional<Border> border_made(const ScheduleShape& shape, const Action& action);
/// The same for the skip connection; none if the model has no such connection, or only one part. training: false if the
/// lists have only forward passes, so that nobody reads gradients.
std::optional<Border> skip_read(const ScheduleShape& shape, const Action& action);
std::optional<Border> skip_made(const ScheduleShape& shape, const Action& action, bool training = true);

/// The stages that make and read it.
int sender(const ScheduleShape& shape, const Border& border);
int receiver(const ScheduleShape& shape, const Border& border);
/// Index among the parts of its receiver.
inline std::size_t part_of_stage(const ScheduleShape& shape, const Border& border) {
  return static_cast<std::size_t>(border.part / shape.stages);
}

/// "the activations of turn 5 for part 1", "the skip connection's activations of turn 5 for part 3".
std::string words_of(const Border& border);

/// Number of parts of a model above which messages could not be told apart.
inline constexpr int most_parts_of_model = (1 << 13) - 1;
/// The tag of its message (comm::Communicator::send()). Turns that are far apart share a tag. That is safe:
/// their messages have the same sender and receiver, and both start them in ascending order of turns.
int tag_of(const Border& border, int parts_of_model);

}  // namespace shoal::pipeline
