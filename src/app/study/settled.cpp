// SPDX-License-Identifier: Apache-2.0
#include "settled.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "../metrics.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

using Steps = std::vector<StepTime>;

/// Number of steps after which the pattern of synchronizations repeats; 1 if every step is the same.
std::size_t period_of(const sync::SyncOptions& options) {
  const sync::SyncTraits does = row_of(options.kind).does;
  if (does.outer) return options.slowmo_frequency;
  return does.average ? options.localsgd_frequency : 1;
}

std::int64_t warmup_of(const sync::SyncOptions& options) {
  return sync::trains_locally(options) ? static_cast<std::int64_t>(options.warmup_steps) : 0;
}

Steps settled_of(const Steps& part, const sync::SyncOptions& options) {
  const std::int64_t warmup = warmup_of(options);
  const auto local = std::find_if(part.begin(), part.end(), [&](const StepTime& each) { return each.step > warmup; });
  auto begin = part.begin() + (part.size() > 2 ? 1 : 0);
  if (local != part.end()) begin = std::max(begin, local);
  const auto left = static_cast<std::size_t>(part.end() - begin);
  const std::size_t period = period_of(options);
  return {begin + static_cast<std::ptrdiff_t>(left >= period ? left % period : 0), part.end()};
}

/// Removes the parts that do not meet the condition, unless no part meets it.
template <typename Condition>
void prefer(std::vector<Steps>& parts, const Condition& condition) {
  if (std::any_of(parts.begin(), parts.end(), condition)) std::erase_if(parts, std::not_fn(condition));
}

}  // namespace

RunMetrics read_metrics(const std::filesystem::path& metrics) {
  RunMetrics read;
  for_lines_until(metrics, std::numeric_limits<std::int64_t>::max(), [&](const std::string& line, std::int64_t step) {
    const auto json = nlohmann::ordered_json::parse(line);
    const bool timed = json.contains("step_s") && json.at("step_s").is_number() && json.contains("loss");
    require_input(timed, metrics.string(), ": step ", step, " has no loss or no step_s");
    read.steps.push_back({step, json.at("step_s").get<double>()});
    const auto& loss = json.at("loss");
    read.final_loss = loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
  });
  return read;
}

std::vector<double> settled_seconds(const Steps& steps, std::int64_t last_part, const sync::SyncOptions& options) {
  const auto border = std::find_if(steps.begin(), steps.end(), [&](const StepTime& each) { return each.step >= last_part; });
  std::vector<Steps> parts = {Steps(steps.begin(), border), Steps(border, steps.end())};
  prefer(parts, [&](const Steps& part) { return !part.empty() && part.back().step > warmup_of(options); });
  prefer(parts, [](const Steps& part) { return part.size() > 2; });
  std::vector<double> seconds;
  for (const Steps& part : parts) {
    for (const StepTime& each : settled_of(part, options)) seconds.push_back(each.seconds);
  }
  return seconds;
}

}  // namespace shoal::app
