// SPDX-License-Identifier: Apache-2.0
// What each action of a list does with borders. It follows from the list of the stage alone.
#pragma once

#include <vector>

#include "shoal/pipeline/border.hpp"

namespace shoal::pipeline {

struct Use {
  std::vector<Border> reads, makes;  ///< from and for the neighbours, then those of the skip connection
  std::vector<Border> releases;      ///< whose buffers are free after the action
};

/// By action. shape.stage is the list's stage.
std::vector<Use> uses_of(const std::vector<Action>& list, const ScheduleShape& shape);

}  // namespace shoal::pipeline
