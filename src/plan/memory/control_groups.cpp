// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/control_groups.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace shoal::plan {

namespace {

/// A hierarchy of groups that is mounted here, or a part of one.
struct Mount {
  std::string top;  ///< the group that the mount point shows
  std::string point;
  bool version_2 = false;
};

/// The paths of /proc/self/mountinfo have blanks and backslashes as three octal digits: "\040".
std::string without_escapes(const std::string& path) {
  std::string result;
  for (std::size_t at = 0; at < path.size(); ++at) {
    if (path[at] == '\\' && at + 3 < path.size()) {
      result += static_cast<char>(std::stoi(path.substr(at + 1, 3), nullptr, 8));
      at += 3;
    } else {
      result += path[at];
    }
  }
  return result;
}

bool lists(std::string_view words, const std::string& word) {
  return ("," + std::string(words) + ",").find("," + word + ",") != std::string::npos;
}

/// A line is "ID PARENT DEVICE TOP POINT OPTIONS [TAG ...] - TYPE SOURCE OPTIONS".
std::vector<Mount> mounts(const std::filesystem::path& mountinfo) {
  std::vector<Mount> found;
  std::ifstream file(mountinfo);
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size()) continue;
    const bool version_2 = words[dash + 1] == "cgroup2";
    if (version_2 || (words[dash + 1] == "cgroup" && lists(words[dash + 3], "memory")))
      found.push_back({without_escapes(words[3]), without_escapes(words[4]), version_2});
  }
  return found;
}

/// This process's group: of version 2, or of the memory controller of version 1. A line is "NUMBER:CONTROLLERS:PATH".
std::optional<std::string> group_path(const std::filesystem::path& cgroup, bool version_2) {
  std::ifstream file(cgroup);
  for (std::string line; std::getline(file, line);) {
    const std::size_t controllers = line.find(':') + 1, path = line.find(':', controllers);
    if (controllers == 0 || path == std::string::npos) continue;
    const std::string_view names = std::string_view(line).substr(controllers, path - controllers);
    if (version_2 ? line.starts_with("0::") : lists(names, "memory")) return line.substr(path + 1);
  }
  return std::nullopt;
}

/// Without use_hierarchy, a group of version 1 does not count the memory of the groups in it.
bool counts_inner_groups(const std::filesystem::path& group) {
  std::ifstream file(group / "memory.use_hierarchy");
  int value = 1;
  return !(file >> value) || value != 0;
}

}  // namespace

std::vector<ControlGroup> memory_groups(const std::filesystem::path& root) {
  const std::filesystem::path self = root / "proc/self";
  std::vector<ControlGroup> groups;
  for (const Mount& mount : mounts(self / "mountinfo")) {
    const std::optional<std::string> own = group_path(self / "cgroup", mount.version_2);
    const std::string top = mount.top == "/" ? "" : mount.top;
    if (!own || !(*own + "/").starts_with(top + "/")) continue;  // a container may see other groups than its own
    const std::filesystem::path point = root / std::filesystem::path(mount.point).relative_path();
    std::string inner = own->substr(top.size());
    while (inner.ends_with('/')) inner.pop_back();
    groups.push_back({point / std::filesystem::path(inner).relative_path(), mount.version_2});
    while (!inner.empty()) {
      inner.erase(inner.rfind('/'));
      const std::filesystem::path around = inner.empty() ? point : point / std::filesystem::path(inner).relative_path();
      if (!mount.version_2 && !counts_inner_groups(around)) break;
      groups.push_back({around, mount.version_2});
    }
  }
  return groups;
}

}  // namespace shoal::plan
