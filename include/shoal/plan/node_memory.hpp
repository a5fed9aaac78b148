// SPDX-License-Identifier: Apache-2.0
// The memory that a rank may take.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace shoal::plan {

/// Bytes of memory.limit, which is above 0.
std::size_t limit_bytes(double limit_gib);

/// A part of this node's memory, and what bounds it: "the node's memory" or the file of a control group.
struct MemoryShare {
  std::size_t bytes = 0;
  std::string bound;
};

/// The node's physical memory divided by the ranks.
MemoryShare share_of_node(int ranks_on_node);

/// The same of what this process may take on this node: the least of the node's memory and the limits of the control groups
/// around the process, which are those of all its ranks. root: where /proc and the groups are found.
MemoryShare share_of_groups(int ranks_on_node, const std::filesystem::path& root = "/");

/// "/sys/fs/cgroup/job_7/memory.max, 200 MiB for 2 ranks"
std::string described(const MemoryShare& share, int ranks_on_node);

}  // namespace shoal::plan
