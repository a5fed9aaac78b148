// SPDX-License-Identifier: Apache-2.0
#include "uses.hpp"

#include <algorithm>

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

}  // namespace

std::vector<Use> uses_of(const std::vector<Action>& list, const ScheduleShape& shape) {
  const bool trains = std::any_of(list.begin(), list.end(), [](const Action& action) { return action.kind == backward; });
  std::vector<Use> uses;
  for (const Action& action : list) {
    Use& use = uses.emplace_back(Use{border_read(shape, action), border_made(shape, action), {}});
    if (use.reads && (action.kind == backward || !trains)) use.releases.push_back(*use.reads);
    if (action.kind == backward) {
      if (const auto kept = border_read(shape, {forward, action.part, action.turn})) use.releases.push_back(*kept);
    }
  }
  return uses;
}

}  // namespace shoal::pipeline
