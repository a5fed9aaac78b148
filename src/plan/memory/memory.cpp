// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/memory.hpp"

#include <algorithm>

namespace shoal::plan {

MemoryPlan memory(const zero::EngineOptions& options, int rank, int ranks, const ExtraAllocations& extra) {
  Memory counting(options.images);
  zero::Engine engine(options, {rank, ranks, nullptr}, counting);
  if (extra) extra(engine, counting);
  MemoryPlan plan{counting.taken(), {}};
  for (const Memory::Entry& entry : counting.entries()) {
    const auto same = [&](const Memory::Entry& e) {
      return e.where == entry.where && e.kind == entry.kind && e.label == entry.label;
    };
    const auto found = std::find_if(plan.parts.begin(), plan.parts.end(), same);
    if (found == plan.parts.end()) {
      plan.parts.push_back(entry);
    } else {
      found->bytes += entry.bytes;
    }
  }
  if (plan.bytes.images() > 0) plan.parts.push_back({Kind::staging, "copies for messages", plan.bytes.images()});
  std::stable_sort(plan.parts.begin(), plan.parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return plan;
}

}  // namespace shoal::plan
