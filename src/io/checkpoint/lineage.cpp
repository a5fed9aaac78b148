// SPDX-License-Identifier: Apache-2.0
#include "shoal/io/lineage.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "shoal/base/error.hpp"
#include "shoal/io/identity.hpp"

namespace shoal::io {

namespace {

constexpr std::size_t shown_digits = 12;

}  // namespace

Lineage new_run() { return {random_digits(), utc_now(), {}}; }

Lineage new_run_after(const Lineage& before, std::int64_t step) {
  Lineage run = new_run();
  run.ancestors = before.ancestors;
  run.ancestors.push_back({before.run, step});
  return run;
}

bool belongs(const Lineage& lineage, const std::string& run, std::int64_t step) {
  if (run == lineage.run) return true;
  return std::any_of(lineage.ancestors.begin(), lineage.ancestors.end(),
                     [&](const Ancestor& ancestor) { return ancestor.run == run && step <= ancestor.step; });
}

std::optional<Lineage> common_lineage(const std::vector<CheckpointOrigin>& checkpoints) {
  const auto holds_all = [&](const CheckpointOrigin& leaf) {
    return std::all_of(checkpoints.begin(), checkpoints.end(),
                       [&](const CheckpointOrigin& other) { return belongs(leaf.by, other.by.run, other.step); });
  };
  const auto leaf = std::find_if(checkpoints.begin(), checkpoints.end(), holds_all);
  return leaf == checkpoints.end() ? std::nullopt : std::optional(leaf->by);
}

std::string short_name(const std::string& run) { return run.empty() ? "unknown" : run.substr(0, shown_digits); }

std::string print(const std::vector<Ancestor>& ancestors) {
  std::string line;
  for (const Ancestor& ancestor : ancestors) {
    line += text(line.empty() ? "" : ", ", short_name(ancestor.run), " until step ", ancestor.step);
  }
  return line;
}

std::map<std::string, std::string> texts_of(const std::vector<Ancestor>& ancestors) {
  std::map<std::string, std::string> texts;
  for (std::size_t i = 0; i < ancestors.size(); ++i) {
    std::array<char, 24> place{};
    std::snprintf(place.data(), place.size(), "%06zu", i);
    texts[place.data()] = text(ancestors[i].run, ' ', ancestors[i].step);
  }
  return texts;
}

std::vector<Ancestor> ancestors_of(const std::map<std::string, std::string>& texts) {
  std::vector<Ancestor> ancestors;
  for (const auto& [place, line] : texts) {
    const std::size_t space = line.find(' ');
    Ancestor ancestor{line.substr(0, space), 0};
    const char* const end = line.data() + line.size();
    const char* const begin = space == std::string::npos ? end : line.data() + space + 1;
    const auto [stop, error] = std::from_chars(begin, end, ancestor.step);
    require_input(error == std::errc() && stop == end && ancestor.step >= 0, "lineage: '", line,
                  "' is not a run and a step");
    ancestors.push_back(std::move(ancestor));
  }
  return ancestors;
}

}  // namespace shoal::io
