// SPDX-License-Identifier: Apache-2.0
#include "app/train/banner.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include "app/setup/device_start.hpp"
#include "app/setup/tiers.hpp"
#include "app/support/library_versions.hpp"
#include "app/support/text_table.hpp"
#include "app/support/version.hpp"
#include "app/train/faults.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/kernels/peak.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/model/model.hpp"

namespace shoal::app {

namespace {

/// Bytes by kind: planned and used. Of the kinds that have many uses, also the planned bytes of each.
TextRows memory_rows(const plan::MemoryPlan& plan, const Ledger& used) {
  const auto both = [](std::size_t planned, std::size_t in_use) {
    return print_to_string("%8s  %8s", bytes_text(planned).c_str(), bytes_text(in_use).c_str());
  };
  TextRows rows;
  rows.reserve(kinds.size() + plan.parts.size() + 1);
  for (const Kind kind : kinds) {
    rows.emplace_back(name_of(kind), both(plan.bytes[kind], used[kind]));
    if (kind != Kind::buffers && kind != Kind::staging) continue;
    for (const Memory::Entry& part : plan.parts) {
      if (part.kind != kind || part.where != Where::device || part.bytes == 0) continue;
      rows.emplace_back("  " + part.label, print_to_string("%8s", bytes_text(part.bytes).c_str()));
    }
  }
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : kinds) {
      const std::size_t planned = plan.bytes.at(where, kind);
      if (where == Where::device || planned == 0) continue;
      rows.emplace_back(text(name_of(kind), " (", name, ")"), both(planned, used.at(where, kind)));
    }
  }
  rows.emplace_back("total", both(plan.bytes.total(), used.total()));
  return rows;
}

}  // namespace

void print_banner(const ResolvedRun& resolved, comm::World& world, const std::string& binding, const Ledger& most_taken,
                  const io::NvmeTier* nvme, double peak_gflops) {
  const config::Options& o = resolved.options;
  std::string libraries;
  for (const auto& [name, version] : library_versions()) {
    libraries.append(libraries.empty() ? "" : ", ").append(name).append(" ").append(version);
  }
  TextRows run = {
      {"ranks",
       text(world.size(), " on ", comm::describe(world.topology()), ", ", counted(resolved.threads, "thread"), " each")},
      {"cores", binding},
      {"device", text(kernels::device_name(), "; at most ", fixed(peak_gflops, 0), " GFLOP/s per rank (",
                      kernels::origin_of_peak(), ", ", name_of(o.train.dtype), ")")},
      {"libraries", libraries},
      {"model",
       text(name_of(o.model.kind), ", ", grouped(model::parameter_count(o.model)), " parameters, ", name_of(o.train.dtype))},
      {"data", resolved.dataset.description},
      {"batch", text(o.batch.global, " sequences of ", o.model.block_size, " tokens per step = micro-batch of ",
                     o.batch.micro, " x ", counted(resolved.division.ranks, "rank"), " x ",
                     counted(resolved.engine.micro_batches / static_cast<std::size_t>(resolved.division.sync_group_size),
                             "accumulation step"))},
  };
  for (auto& row : device_rows(world)) run.push_back(std::move(row));
  for (auto& row : tier_rows(resolved, nvme)) run.push_back(std::move(row));
  run.emplace_back("schedule", optim::describe(o.schedule));
  if (world.size() > 1) {
    const bool native = o.comm.collectives == comm::Collectives::native;
    run.emplace_back("collectives",
                     native ? "the MPI library's own" : "reproducible tree, " + comm::describe_tree(world.data_topology()));
  }
  if (resolved.dataset.entropy_rate) {
    run.emplace_back("best possible loss", text(fixed(*resolved.dataset.entropy_rate, 4), " (the data's entropy rate)"));
  }
  run.emplace_back("output", o.output.dir);
  if (const std::string faults = describe_faults(o.fault); !faults.empty()) run.emplace_back("FAULTS", faults);
  print_table(text("shoal ", version()), run);

  print_table("memory per rank: planned, used (largest rank)", memory_rows(resolved.plan, most_taken));

  print_table("options that differ from their defaults", config::changed(o));
}

}  // namespace shoal::app
