// SPDX-License-Identifier: Apache-2.0
#include "app/setup/resolve.hpp"

#include <algorithm>
#include <utility>

#include "app/setup/extra_memory.hpp"
#include "app/setup/stage_memory.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/model/model.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

/// The end of an error text: what set the limit, if it was not memory.limit.
std::string limit_note(const std::string& limited_by) {
  return limited_by.empty() ? std::string() : text("; the limit: ", limited_by);
}

/// On GPUs only staging memory is the host's; require_room() checks the rest, when the GPU is known.
void require_host_memory(const plan::MemoryPlan& plan, const plan::MemoryShare& share) {
  const std::size_t staging = plan.bytes[Kind::staging] + plan.bytes.in(Where::cpu);
  require_input(staging <= share.bytes, "the run needs ", bytes_text(staging),
                " of the host's memory per rank (staging, and what is offloaded to cpu), and a rank ", "may take ",
                bytes_text(share.bytes), ": ", share.bound, " divided by its ranks");
}

/// Collectives of the MPI library are one message each: a bucket, and at stage 3 a unit that is gathered.
void require_countable(const config::Options& options, int ranks) {
  const bool by_mpi = options.comm.backend == comm::Backend::mpi || device::kind() != device::DeviceKind::cuda;
  if (options.comm.collectives != comm::Collectives::native || !by_mpi || ranks == 1) return;
  constexpr auto most = static_cast<double>(comm::largest_native_bytes);
  const bool gathers = zero::stage_of(options.zero).shards_parameters;
  double all = 0;
  for (const model::UnitLayout& unit : model::layout(options.model)) {
    all += static_cast<double>(unit.elements * sizeof(float));
    const std::size_t bytes = unit.elements * size_of(options.train.dtype);
    require_input(!gathers || bytes <= comm::largest_native_bytes, "comm.collectives = native: unit ", unit.name,
                  " of the model takes ", bytes, " bytes, and a message up to ", comm::largest_native_bytes,
                  "; allowed: comm.collectives = reproducible, or a zero.stage below 3");
  }
  require_input(std::min(all, 1e6 * options.comm.bucket_mb) <= most, "comm.bucket_mb = ", options.comm.bucket_mb,
                " is too much for comm.collectives = native, with messages of up to ", comm::largest_native_bytes,
                " bytes; allowed: up to ", static_cast<int>(1e-6 * most));
}

}  // namespace

ResolvedRun resolve(const config::Options& options, Surroundings found, int ranks, Purpose purpose) {
  ResolvedRun resolved;
  resolved.options = options;
  resolved.dataset = std::move(found.dataset);
  resolved.threads = found.threads;
  if (resolved.options.model.vocab_size == 0) resolved.options.model.vocab_size = resolved.dataset.vocab_size;
  resolved.division = divide(options, ranks, found.on_node);
  const comm::Axes::Position at = resolved.division.axes.position(found.rank, ranks);
  if (purpose != Purpose::train) resolved.division.sync_group_size = resolved.division.ranks;
  const int sync_group_size = resolved.division.sync_group_size;
  if (purpose == Purpose::train) require_countable(resolved.options, sync_group_size);
  resolved.all_stages =
      std::make_shared<PlannedStages>(plan_stages(resolved.options, resolved.division, purpose, found.limit));
  resolved.stages = resolved.all_stages->stages;
  resolved.stages.shape.stage = at.pipeline;
  resolved.engine = with_parts(resolved.all_stages->engine, resolved.stages);
  resolved.plan = plan::memory(resolved.engine, at.data % sync_group_size, sync_group_size,
                               extra_allocations(resolved.options, resolved.division, resolved.stages, purpose, at.data));
  if (!found.limit) require_host_memory(resolved.plan, found.host);
  // Every stage must fit.
  const std::string problem =
      found.limit ? memory_problem(*resolved.all_stages, resolved.options, resolved.division, purpose, *found.limit)
                  : std::string();
  require_input(problem.empty(), problem, limit_note(found.limited_by));
  return resolved;
}

ResolvedRun resolve(comm::World& world, const config::Options& options, int ranks, Purpose purpose) {
  return resolve(options, surroundings(world, options, ranks, purpose), ranks, purpose);
}

}  // namespace shoal::app
