// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/node_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <vector>

#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/plan/control_groups.hpp"

namespace shoal::plan {

namespace {

/// Limits of a group. Beyond memory.max and memory.limit_in_bytes the system kills processes; beyond memory.high it takes
/// memory back and slows them. A run needs all of its memory, so it would hardly go on.
std::vector<std::filesystem::path> limits(const ControlGroup& group) {
  if (!group.version_2) return {group.directory / "memory.limit_in_bytes"};
  return {group.directory / "memory.max", group.directory / "memory.high"};
}

}  // namespace

std::size_t limit_bytes(double limit_gib) {
  constexpr double gib = 0x1p30, most = 0x1p62;  // more than any machine has, and a number of bytes still
  return static_cast<std::size_t>(std::min(limit_gib * gib, most));
}

MemoryShare share_of_node(int ranks_on_node) {
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  return {pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / static_cast<std::size_t>(ranks_on_node),
          "the node's memory"};
}

MemoryShare share_of_groups(int ranks_on_node, const std::filesystem::path& root) {
  MemoryShare least = share_of_node(ranks_on_node);
  for (const ControlGroup& group : memory_groups(root)) {
    for (const std::filesystem::path& file : limits(group)) {
      std::uint64_t limit = 0;
      if (!(std::ifstream(file) >> limit)) continue;  // "max", or no such file in the group of all processes
      const std::size_t bytes = limit / static_cast<std::size_t>(ranks_on_node);
      if (bytes < least.bytes) least = {bytes, file.string()};
    }
  }
  return least;
}

std::string described(const MemoryShare& share, int ranks_on_node) {
  return text(share.bound, ", ", bytes_text(share.bytes * static_cast<std::size_t>(ranks_on_node)), " for ",
              counted(ranks_on_node, "rank"));
}

}  // namespace shoal::plan
