// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/border.hpp"

#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

constexpr std::uint32_t tags = comm::end_of_message_tags - 1;  // the last one is for copies of units (zero/tied_copies.cpp)
static_assert(2 * most_parts_of_model <= tags, "a tag for each direction of each part");

template <typename List>
Lists by_stage(const ScheduleShape& shape, const List& list) {
  Lists lists;
  ScheduleShape of_stage = shape;
  for (of_stage.stage = 0; of_stage.stage < shape.stages; ++of_stage.stage) lists.push_back(list(of_stage));
  return lists;
}

}  // namespace

Lists lists_of(Schedule schedule, const ScheduleShape& shape) {
  return by_stage(shape, [schedule](const ScheduleShape& of_stage) { return actions_of(schedule, of_stage); });
}

Lists evaluation_lists(const ScheduleShape& shape) { return by_stage(shape, forward_only); }

std::optional<Border> border_read(const ScheduleShape& shape, const Action& action) {
  const int part = part_of_model(shape, action.part), end = action.kind == forward ? 0 : parts_of_model(shape) - 1;
  if (part == end) return std::nullopt;
  return Border{action.kind, part, action.turn};
}

std::optional<Border> border_made(const ScheduleShape& shape, const Action& action) {
  const int to = part_of_model(shape, action.part) + (action.kind == forward ? 1 : -1);
  if (to < 0 || to == parts_of_model(shape)) return std::nullopt;
  return Border{action.kind, to, action.turn};
}

std::optional<Border> skip_read(const ScheduleShape& shape, const Action& action) {
  const int last = parts_of_model(shape) - 1, reader = action.kind == forward ? last : 0;
  if (!shape.skip || last == 0 || part_of_model(shape, action.part) != reader) return std::nullopt;
  return Border{action.kind, reader, action.turn, true};
}

std::optional<Border> skip_made(const ScheduleShape& shape, const Action& action, bool training) {
  const int last = parts_of_model(shape) - 1, part = part_of_model(shape, action.part);
  if (!shape.skip || last == 0 || action.kind == backward) return std::nullopt;
  if (part == 0) return Border{forward, last, action.turn, true};
  if (part == last && training) return Border{backward, 0, action.turn, true};
  return std::nullopt;
}

int sender(const ScheduleShape& shape, const Border& border) {
  if (border.skip) return border.kind == forward ? 0 : shape.stages - 1;
  return (border.part + (border.kind == forward ? -1 : 1)) % shape.stages;
}

int receiver(const ScheduleShape& shape, const Border& border) { return border.part % shape.stages; }

std::string words_of(const Border& border) {
  return text("the ", border.skip ? "skip connection's " : "", border.kind == forward ? "activations" : "gradients",
              " of turn ", border.turn, " for part ", border.part);
}

int tag_of(const Border& border, int parts_of_model) {
  require(parts_of_model <= most_parts_of_model, "a pipeline of ", parts_of_model, " parts; at most ", most_parts_of_model);
  const auto channels = static_cast<std::uint32_t>(2 * parts_of_model);
  // No neighbour sends activations to the first part, or gradients to the last one: these two numbers are the skip
  // connection's.
  const int part = !border.skip ? border.part : border.kind == forward ? 0 : parts_of_model - 1;
  const auto channel = static_cast<std::uint32_t>(2 * part + (border.kind == forward ? 0 : 1));
  return static_cast<int>(border.turn % (tags / channels) * channels + channel);
}

}  // namespace shoal::pipeline
