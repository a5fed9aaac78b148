// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/memory.hpp"

#include <unistd.h>

#include <algorithm>

namespace shoal::plan {

MemoryPlan memory(const zero::EngineOptions& options, int rank, int ranks, const ExtraAllocations& extra) {
  Memory counting;
  zero::Engine engine(options, {rank, ranks, nullptr}, counting);
  if (extra) extra(engine, counting);
  MemoryPlan plan{counting.taken(), {}};
  for (const Memory::Entry& entry : counting.entries()) {
    const auto same = [&](const Memory::Entry& e) { return e.kind == entry.kind && e.label == entry.label; };
    const auto found = std::find_if(plan.parts.begin(), plan.parts.end(), same);
    if (found == plan.parts.end()) {
      plan.parts.push_back(entry);
    } else {
      found->bytes += entry.bytes;
    }
  }
  std::stable_sort(plan.parts.begin(), plan.parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return plan;
}

std::size_t available_bytes(double limit_gib, int ranks_on_node) {
  constexpr double gib = 0x1p30, most = 0x1p62;  // more than any machine has, and a number of bytes still
  if (limit_gib > 0) return static_cast<std::size_t>(std::min(limit_gib * gib, most));
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / static_cast<std::size_t>(ranks_on_node);
}

}  // namespace shoal::plan
