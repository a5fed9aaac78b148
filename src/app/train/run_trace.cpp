// SPDX-License-Identifier: Apache-2.0
#include "app/train/run_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include "app/support/collective.hpp"
#include "app/support/library_versions.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/process_memory.hpp"
#include "app/support/version.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/device/timing.hpp"
#include "shoal/io/target.hpp"
#include "shoal/kernels/runtime.hpp"
#include "shoal/model/model.hpp"

namespace shoal::app {

namespace {

constexpr std::size_t trace_events = 1U << 18U;  // 12 MiB: the events between two writes of the trace
/// What a device's queues do in a step and is timed. A model of 48 blocks has some 2000 kernels in a micro-batch.
constexpr std::size_t timed_spans = 1U << 14U;

/// Returns the path for the trace, from which a file of an earlier run has been removed if that is allowed.
std::filesystem::path free_trace_path(comm::World& world, const config::Options& o, std::int64_t first_step) {
  std::string path;
  on_rank_0(world.all(), [&] {
    const bool resumes = o.checkpoint.resume != "none";
    path = resumes ? next_trace_part(o, first_step) : trace_path(o);
    if (!resumes) io::clear_target("trace.file = ", path, io::own_kind(io::FileKind::trace), o.output.overwrite);
  });
  return broadcast_text(world.all(), path, 0);
}

}  // namespace

void start_trace(comm::World& world, const config::Options& options) {
  world.all().barrier().wait();
  trace::set_zero();  // on all ranks at the same time, before the first event
  trace::start(options.trace.level, trace_events);
}

std::unique_ptr<io::TraceFile> open_trace(comm::World& world, const ResolvedRun& resolved, const Assembly& assembly,
                                          std::int64_t first_step, double peak_gflops) {
  const config::Options& o = resolved.options;
  if (o.trace.level == trace::Level::off) return nullptr;
  io::TraceHeader header;
  header.version = version();
  for (const auto& [name, value] : config::list(o)) header.options[name] = value;
  for (const auto& [name, value] : config::changed(o)) header.changed.push_back(name);
  header.parameters = static_cast<std::int64_t>(model::parameter_count(o.model));
  header.data = resolved.dataset.description;
  header.machine["device"] = kernels::device_name();
  header.machine["threads"] = std::to_string(resolved.threads);
  header.machine["peak GFLOP/s per rank"] = text(peak_gflops);
  header.machine["FLOP per token"] = text(model::flops_per_token(o.model));
  for (const auto& [name, value] : library_versions()) header.machine[name] = value;
  for (const auto& unit : assembly.engine.units()) {
    header.units.push_back(unit.name);
    header.unit_elements.push_back(unit.elements);
  }
  header.groups = world.group_kinds();
  if (trace::on(trace::Level::comm)) device::start_timing(timed_spans);  // not before: setting up takes many copies
  return std::make_unique<io::TraceFile>(world, free_trace_path(world, o, first_step), header);
}

std::int64_t steps_between_writes(comm::World& world, const config::TraceOptions& options, std::int64_t steps) {
  std::int64_t events = static_cast<std::int64_t>(trace::pending()) / steps;
  world.all().all_reduce(Span<std::int64_t>(&events, 1), comm::Reduce::max).wait();
  // Half of the buffer is left for steps with more events, and for evaluations and checkpoints.
  const std::int64_t fitting = static_cast<std::int64_t>(trace_events) / 2 / std::max<std::int64_t>(events, 1);
  return std::clamp<std::int64_t>(fitting, 1, static_cast<std::int64_t>(options.interval));
}

void mark_memory(const Memory& memory) {
  trace::counter("memory/resident", current_rss_bytes());
  trace::counter("memory/arenas", memory.taken().total());
}

}  // namespace shoal::app
