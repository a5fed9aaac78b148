// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/schedule.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

Action action(Action::Kind kind, std::size_t part, std::size_t turn) {
  return {kind, static_cast<std::uint16_t>(part), static_cast<std::uint32_t>(turn)};
}

std::size_t parts_of(const ScheduleShape& shape) { return static_cast<std::size_t>(shape.parts); }

}  // namespace

std::vector<Action> depth_first(const ScheduleShape& shape) {
  std::vector<Action> actions;
  for (std::size_t turn = 0; turn < shape.turns; ++turn) {
    for (std::size_t part = 0; part < parts_of(shape); ++part) actions.push_back(action(forward, part, turn));
    for (std::size_t part = parts_of(shape); part-- > 0;) actions.push_back(action(backward, part, turn));
  }
  return actions;
}

std::vector<Action> gpipe(const ScheduleShape& shape) {
  std::vector<Action> actions;
  for (std::size_t part = 0; part < parts_of(shape); ++part) {
    for (std::size_t turn = 0; turn < shape.turns; ++turn) actions.push_back(action(forward, part, turn));
  }
  for (std::size_t part = parts_of(shape); part-- > 0;) {
    for (std::size_t turn = 0; turn < shape.turns; ++turn) actions.push_back(action(backward, part, turn));
  }
  return actions;
}

std::vector<Action> one_f_one_b(const ScheduleShape& shape) {
  const std::size_t ahead = std::min(shape.turns, static_cast<std::size_t>(shape.stages - 1 - shape.stage));
  std::vector<Action> actions;
  for (std::size_t turn = 0; turn < ahead; ++turn) actions.push_back(action(forward, 0, turn));
  for (std::size_t turn = 0; turn < shape.turns; ++turn) {
    if (ahead + turn < shape.turns) actions.push_back(action(forward, 0, ahead + turn));
    actions.push_back(action(backward, 0, turn));
  }
  return actions;
}

std::vector<Action> interleaved(const ScheduleShape& shape) {
  const auto stages = static_cast<std::size_t>(shape.stages), after = stages - 1 - static_cast<std::size_t>(shape.stage);
  const std::size_t parts = parts_of(shape), total = parts * shape.turns;
  // The i-th forward pass. The i-th backward pass has the same turn, and goes through the parts from the last one on.
  const auto turn = [&](std::size_t i) { return i / (stages * parts) * stages + i % stages; };
  const auto part = [&](std::size_t i) { return i / stages % parts; };
  // The last part's forward passes begin after a group of turns has gone through all other parts. Two more for each stage
  // that follows: the time until the first gradient comes back.
  const std::size_t ahead = std::min(total, (parts - 1) * stages + 2 * after);
  std::vector<Action> actions;
  for (std::size_t i = 0; i < ahead; ++i) actions.push_back(action(forward, part(i), turn(i)));
  for (std::size_t i = 0; i < total; ++i) {
    if (ahead + i < total) actions.push_back(action(forward, part(ahead + i), turn(ahead + i)));
    actions.push_back(action(backward, parts - 1 - part(i), turn(i)));
  }
  return actions;
}

std::vector<Action> forward_only(const ScheduleShape& shape) {
  const auto group = static_cast<std::size_t>(shape.stages);
  std::vector<Action> actions;
  for (std::size_t first = 0; first < shape.turns; first += group) {
    const std::size_t end = std::min(shape.turns, first + group);
    for (std::size_t part = 0; part < parts_of(shape); ++part) {
      for (std::size_t turn = first; turn < end; ++turn) actions.push_back(action(forward, part, turn));
    }
  }
  return actions;
}

std::vector<Action> actions_of(Schedule schedule, const ScheduleShape& shape) {
  const ScheduleRow& row = row_of(schedule);
  require(shape.stage >= 0 && shape.stage < shape.stages && shape.parts > 0, "stage ", shape.stage, " of ", shape.stages,
          " with ", shape.parts, " parts");
  require(row.several_stages || shape.stages == 1, "schedule ", row.name, " on ", shape.stages, " stages");
  require(row.several_parts || shape.parts == 1, "schedule ", row.name, " with ", shape.parts, " parts per stage");
  require(!row.whole_groups || shape.turns % static_cast<std::size_t>(shape.stages) == 0, "schedule ", row.name, ": ",
          shape.turns, " turns are not a multiple of ", shape.stages, " stages");
  return row.list(shape);
}

std::vector<std::size_t> slots(const std::vector<Action>& actions) {
  std::vector<std::size_t> now, most;
  for (const Action& action : actions) {
    if (action.part >= now.size()) {
      now.resize(action.part + 1U);
      most.resize(action.part + 1U);
    }
    std::size_t& kept = now[action.part];
    kept = action.kind == forward ? kept + 1 : kept - 1;
    most[action.part] = std::max(most[action.part], kept);
  }
  return most;
}

double ideal_idle_share(const ScheduleShape& shape) {
  const double busy = static_cast<double>(shape.parts) * static_cast<double>(shape.turns);
  return 1 - busy / (busy + shape.stages - 1);
}

}  // namespace shoal::pipeline
