// SPDX-License-Identifier: Apache-2.0
// A table of the stages of a pipeline.
#pragma once

#include <vector>

#include "app/setup/stage_memory.hpp"
#include "shoal/base/types.hpp"

namespace shoal::app {

struct StageRow {
  std::vector<Range> units;  ///< by part
  Ledger bytes;              ///< of a rank
  bool largest = false;
};
std::vector<StageRow> stage_rows(const PlannedStages& planned);

/// A table of the stages: a line each. first: the first character of its lines.
void print_stages(const std::vector<StageRow>& rows, char first);

}  // namespace shoal::app
