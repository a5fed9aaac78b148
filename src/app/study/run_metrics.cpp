// SPDX-License-Identifier: Apache-2.0
#include "app/study/run_metrics.hpp"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "app/train/metrics.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

RunMetrics read_metrics(const std::filesystem::path& metrics) {
  RunMetrics read;
  for_lines_until(metrics, std::numeric_limits<std::int64_t>::max(), [&](const std::string& line, std::int64_t step) {
    const auto json = nlohmann::ordered_json::parse(line);
    require_input(json.contains("loss"), metrics.string(), ": step ", step, " has no loss");
    const auto& loss = json.at("loss");
    ++read.steps;
    read.final_loss = loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
  });
  return read;
}

}  // namespace shoal::app
