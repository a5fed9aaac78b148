// SPDX-License-Identifier: Apache-2.0
// Control groups (cgroups, versions 1 and 2), by which batch systems and containers bound the memory of their processes.
#pragma once

#include <filesystem>
#include <vector>

namespace shoal::plan {

struct ControlGroup {
  std::filesystem::path directory;  ///< where it is mounted
  bool version_2 = false;
};

/// The groups that may bound the memory of this process: its own, and those around it as far as they are mounted here.
/// root: where proc/self and the mount points are found.
std::vector<ControlGroup> memory_groups(const std::filesystem::path& root = "/");

}  // namespace shoal::plan
