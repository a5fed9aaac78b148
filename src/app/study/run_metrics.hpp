// SPDX-License-Identifier: Apache-2.0
// What a study reads from a run's metrics.jsonl, which has the steps of all its parts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace shoal::app {

struct RunMetrics {
  std::size_t steps = 0;
  std::optional<double> final_loss;  ///< none: there is no step, or the loss was not finite
};
/// bad_input() names the first line that is not a run's (FILE:LINE).
RunMetrics read_metrics(const std::filesystem::path& metrics);

}  // namespace shoal::app
