// SPDX-License-Identifier: Apache-2.0
// What each action of a list does with borders. It follows from the list of the stage alone.
#pragma once

#include <optional>
#include <vector>

#include "shoal/pipeline/border.hpp"

namespace shoal::pipeline {

struct Use {
  std::optional<Border> reads, makes;
  std::vector<Border> releases;  ///< whose buffers are free after the action
};

/// By action. shape.stage is the list's stage.
std::vector<Use> uses_of(const std::vector<Action>& list, const ScheduleShape& shape);

}  // namespace shoal::pipeline
