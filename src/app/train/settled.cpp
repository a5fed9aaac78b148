// SPDX-License-Identifier: Apache-2.0
#include "app/train/settled.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/support/bytes_json.hpp"

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

Steps settled_of_part(const Steps& part, const sync::SyncOptions& options) {
  const std::int64_t warmup = warmup_of(options);
  const auto local = std::find_if(part.begin(), part.end(), [&](const StepTime& each) { return each.step > warmup; });
  auto begin = part.begin() + (part.size() > 2 ? 1 : 0);
  if (local != part.end()) begin = std::max(begin, local);
  const auto left = static_cast<std::size_t>(part.end() - begin);
  const std::size_t period = period_of(options);
  return {begin + static_cast<std::ptrdiff_t>(left >= period ? left % period : 0), part.end()};
}

/// Cuts the steps where the parts of the run begin.
std::vector<Steps> parts_of(const Steps& steps, const std::vector<io::Ancestor>& ancestors) {
  std::vector<Steps> parts;
  auto begin = steps.begin();
  for (const io::Ancestor& ancestor : ancestors) {
    const auto end = std::find_if(begin, steps.end(), [&](const StepTime& each) { return each.step > ancestor.step; });
    parts.emplace_back(begin, end);
    begin = end;
  }
  parts.emplace_back(begin, steps.end());
  std::erase_if(parts, [](const Steps& part) { return part.empty(); });
  return parts;
}

/// Removes the parts that do not meet the condition, unless no part meets it.
template <typename Condition>
void prefer(std::vector<Steps>& parts, const Condition& condition) {
  if (std::any_of(parts.begin(), parts.end(), condition)) std::erase_if(parts, std::not_fn(condition));
}

}  // namespace

std::vector<StepTime> settled_of(const Steps& steps, const std::vector<io::Ancestor>& ancestors,
                                 const sync::SyncOptions& options) {
  std::vector<Steps> parts = parts_of(steps, ancestors);
  prefer(parts, [&](const Steps& part) { return part.back().step > warmup_of(options); });
  prefer(parts, [](const Steps& part) { return part.size() > 2; });
  Steps settled;
  for (const Steps& part : parts) {
    for (const StepTime& each : settled_of_part(part, options)) settled.push_back(each);
  }
  return settled;
}

nlohmann::ordered_json settled_json(const Steps& settled, const sync::SyncOptions& options) {
  nlohmann::ordered_json ranges = nlohmann::ordered_json::array();
  std::vector<double> seconds;
  for (const StepTime& each : settled) {
    if (!ranges.empty() && ranges.back().back() == each.step - 1) {
      ranges.back().back() = each.step;
    } else {
      ranges.push_back({each.step, each.step});
    }
    seconds.push_back(each.seconds);
  }
  return {{"steps", ranges}, {"period", period_of(options)}, {"step_s", seconds_json(seconds)}};
}

}  // namespace shoal::app
