// SPDX-License-Identifier: Apache-2.0
#include "app/setup/tiers.hpp"

#include "app/support/collective.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/base/output.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/zero/state_places.hpp"

namespace shoal::app {

namespace {

/// "moments and masters", "0.47 of the optimizer's states (units h.6 to ln_f)".
std::string optimizer_text(const ResolvedRun& resolved) {
  const std::vector<model::UnitLayout> units = model::layout(resolved.options.model);
  const auto layouts = zero::shard_layouts(units, resolved.engine.zero, {}, resolved.engine.parts);
  const auto places = zero::state_places(resolved.engine.offload, zero::stage_of(resolved.engine.zero), layouts);
  const double part = zero::offloaded_part(places, layouts);
  if (part == 1) return resolved.engine.dtype == DType::f32 ? "moments" : "moments and masters";
  std::size_t first = 0;
  while (first < places.size() && places[first].optimizer == Where::device) ++first;
  if (first == places.size()) return "nothing: offload.optimizer_ratio is less than the last unit's part";
  return text(fixed(part, 2), " of the optimizer's states (units ", units[first].name, " to ", units.back().name, ")");
}

/// What waits in this tier; empty: nothing.
std::string content_text(const ResolvedRun& resolved, Where where) {
  const zero::OffloadOptions& offload = resolved.engine.offload;
  std::string words;
  if (offload.optimizer == where) words = optimizer_text(resolved);
  if (offload.params == where) words += text(words.empty() ? "" : ", ", "parameters");
  return words;
}

}  // namespace

std::unique_ptr<io::NvmeTier> open_nvme(comm::World& world, const ResolvedRun& resolved, const Memory& memory) {
  std::unique_ptr<io::NvmeTier> tier;
  const io::NvmeOptions& options = resolved.options.nvme;
  on_all_ranks(world.all(), [&] {
    if (resolved.plan.bytes.in(Where::nvme) == 0) return;
    try {
      tier = std::make_unique<io::NvmeTier>(memory, options);
    } catch (const Error& error) {
      throw Error(error.code(), Seen::here, text("nvme.dir = ", options.dir, ": ", error.what()));
    }
  });
  if (tier == nullptr || world.all().rank() != 0) return tier;
  for (const std::string& warning : tier->warnings()) {
    output::complain(text("shoal: warning: nvme.dir: ", warning, "\n"));
  }
  return tier;
}

TextRows tier_rows(const ResolvedRun& resolved, const io::NvmeTier* nvme) {
  TextRows rows;
  if (const std::string there = content_text(resolved, Where::cpu); !there.empty()) {
    const bool in_place = device::kernels_reach(Where::cpu);
    rows.emplace_back("offload to cpu",
                      text(there, in_place ? ": the device is the host here, so that this saves nothing" : ""));
  }
  if (const std::string there = content_text(resolved, Where::nvme); !there.empty() && nvme != nullptr) {
    rows.emplace_back("offload to nvme", text(there, ": ", bytes_text(resolved.plan.bytes.in(Where::nvme)), " per rank in ",
                                              resolved.options.nvme.dir, ", by ", name_of(nvme->access()),
                                              nvme->direct() ? ", past the system's cache" : ""));
  }
  return rows;
}

}  // namespace shoal::app
