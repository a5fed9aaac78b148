// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/uses.hpp"

#include <algorithm>

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

std::vector<Border> those_of(const std::optional<Border>& border, const std::optional<Border>& skip) {
  std::vector<Border> borders;
  for (const auto& each : {border, skip}) {
    if (each) borders.push_back(*each);
  }
  return borders;
}

}  // namespace

std::vector<Use> uses_of(const std::vector<Action>& list, const ScheduleShape& shape) {
  const bool trains = std::any_of(list.begin(), list.end(), [](const Action& action) { return action.kind == backward; });
  std::vector<Use> uses;
  for (const Action& action : list) {
    Use& use = uses.emplace_back(Use{those_of(border_read(shape, action), skip_read(shape, action)),
                                     those_of(border_made(shape, action), skip_made(shape, action, trains)),
                                     {}});
    for (const Border& border : use.reads) {
      // Backward passes need the activations of the part before again, but not those of the skip connection: the head, which
      // reads them, has its backward pass in the forward pass.
      if (action.kind == backward || !trains || border.skip) use.releases.push_back(border);
    }
    if (action.kind == backward) {
      if (const auto kept = border_read(shape, {forward, action.part, action.turn})) use.releases.push_back(*kept);
    }
  }
  return uses;
}

}  // namespace shoal::pipeline
