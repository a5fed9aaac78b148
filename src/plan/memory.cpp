// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace shoal::plan {

namespace {

std::string gib(std::size_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 30) << " GiB";
  return out.str();
}

}  // namespace

MemoryPlan memory(const zero::EngineOptions& options, int rank, int ranks, const Further& further) {
  Memory counting;
  zero::Engine engine(options, {rank, ranks, nullptr}, counting);
  if (further) further(engine, counting);
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
  if (limit_gib > 0) return static_cast<std::size_t>(limit_gib * (1 << 30));
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / static_cast<std::size_t>(ranks_on_node);
}

std::string why_too_large(const MemoryPlan& plan, std::size_t limit, const zero::EngineOptions& options) {
  if (plan.bytes.total() <= limit) return {};
  std::ostringstream out;
  out << "the run needs " << gib(plan.bytes.total()) << " per rank, and a rank may take " << gib(limit) << "; largest: ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.parts.size()); ++i) {
    out << (i == 0 ? "" : ", ") << plan.parts[i].label << " " << gib(plan.parts[i].bytes);
  }
  // Activations fall with batch.micro, and a smaller micro-batch leaves the step's samples as they are.
  if (plan.bytes[Kind::activations] > plan.bytes.total() / 4 && options.capacity.sequences > 1) {
    out << "; the cheapest way to make it fit: a smaller batch.micro (now " << options.capacity.sequences << ")";
  } else {
    out << "; the cheapest way to make it fit: fewer ranks per node, or a smaller model";
  }
  return out.str();
}

}  // namespace shoal::plan
