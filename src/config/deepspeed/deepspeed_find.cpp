// SPDX-License-Identifier: Apache-2.0
// Finds the rows of keys by their paths.
#include <algorithm>

#include "config/deepspeed/deepspeed_keys.hpp"

namespace shoal::config {

namespace {

/// The position of the dot before the last key. A key in quotes may contain dots; the keys of rows have no quotes.
std::size_t last_dot(std::string_view path) { return path.rfind('.', path.find('"')); }

std::string parent_of(std::string_view path) {
  const std::size_t dot = last_dot(path);
  return dot == std::string_view::npos ? std::string() : std::string(path.substr(0, dot));
}

std::string last_of(std::string_view path) { return std::string(path.substr(last_dot(path) + 1)); }  // npos + 1 is 0

}  // namespace

bool is_of_one_cycle(const Row& row) {
  const UsedBy& by = row.used_by;
  return by.option == "schedule.cycle_momentum" ||
         (by.option == "schedule.kind" && by.values == std::vector<std::string>{name_of(optim::ScheduleKind::OneCycle)});
}

const DeepSpeedKey* find_deepspeed(std::string_view path) {
  std::string row(path);
  const std::size_t bracket = row.find('[');
  if (bracket != std::string::npos) row.replace(bracket + 1, row.find(']', bracket) - bracket - 1, "");
  const auto& keys = deepspeed_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const DeepSpeedKey& key) { return key.path == row; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_comment_key(std::string_view path) { return last_of(path).starts_with('_'); }

std::string unknown_deepspeed_key(const std::string& path) {
  const std::string parent = parent_of(path), key = last_of(path);
  std::vector<std::string> siblings;
  std::string elsewhere;
  for (const DeepSpeedKey& row : deepspeed_keys()) {
    if (row.path.ends_with(']')) continue;
    if (parent_of(row.path) == parent) siblings.push_back(last_of(row.path));
    if (last_of(row.path) == key && elsewhere.empty()) elsewhere = row.path;
  }
  const std::string slip = nearest(key, siblings);
  const std::string meant = slip.empty() ? elsewhere : parent + (parent.empty() ? "" : ".") + slip;
  if (!meant.empty()) return "unknown key; did you mean " + meant + "?";
  constexpr std::size_t few = 16;
  if (siblings.size() <= few) return "unknown key; " + (parent.empty() ? "" : parent + " has ") + joined(siblings);
  return "unknown key; DeepSpeed 0.19 has none of this name";
}

}  // namespace shoal::config
