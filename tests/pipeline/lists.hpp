// SPDX-License-Identifier: Apache-2.0
// Runs the lists of all stages of a pipeline, with nothing but their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "shoal/pipeline/border.hpp"

namespace shoal::pipeline::test {

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

}  // namespace shoal::pipeline::test
