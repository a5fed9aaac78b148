// SPDX-License-Identifier: Apache-2.0
#include "app/setup/extra_memory.hpp"

#include <algorithm>

#include "app/setup/saved_slices.hpp"
#include "shoal/io/background_save.hpp"
#include "shoal/sync/schedule.hpp"

namespace shoal::app {

namespace {

/// Returns true if nodes differ at an evaluation, which then needs memory for their mean.
bool evaluates_mean(const config::Options& options, int nodes) {
  if (options.data.val_fraction == 0 && options.data.val_source.empty()) return false;
  const sync::SyncSchedule schedule(options.sync, nodes);
  if (schedule.nodes_differ_after(options.train.steps)) return true;
  const std::size_t every = options.train.eval_every, evaluations = every == 0 ? 0 : options.train.steps / every;
  // Nodes agree after the multiples of one or two numbers of steps. If they agree at the last four evaluations, they agree
  // at all.
  for (std::size_t k = evaluations; k > 0 && k + 4 > evaluations; --k) {
    if (schedule.nodes_differ_after(k * every)) return true;
  }
  return false;
}

}  // namespace

std::optional<sync::Synchroniser> take_synchroniser(const config::Options& options, zero::Engine& engine,
                                                    const sync::NodeGroups& groups, Memory& memory) {
  if (!sync::trains_locally(options.sync)) return std::nullopt;
  const sync::SyncContext run = {options.comm.reduce_dtype, options.zero.quant_block,
                                 evaluates_mean(options, groups.across.ranks)};
  return std::optional<sync::Synchroniser>(std::in_place, options.sync, run, engine.units(), engine.states(), groups,
                                           memory);
}

pipeline::Runner take_runner(const config::Options& options, const StagePlan& stages, zero::Engine& engine,
                             comm::Communicator* group, Memory& memory) {
  return {group, stages.lists, stages.shape, border_bytes(options, engine), memory};
}

Span<float> take_checkpoint_copy(const config::Options& options, zero::Engine& engine, Memory& memory) {
  if (!options.checkpoint.async) return {};
  return memory.take<float>(Kind::staging, io::BackgroundSave::copy_elements(slices_to_copy(engine)), "checkpoint copy");
}

Span<float> take_export_piece(const zero::Engine& engine, Memory& memory) {
  constexpr std::size_t most = std::size_t{1} << 20U;  // long enough that messages and writes are as fast as whole units'
  std::size_t elements = 0;
  for (const auto& unit : engine.units()) elements = std::max(elements, unit.elements);
  return memory.take<float>(Kind::staging, std::min(elements, most), "weights to export");
}

plan::ExtraAllocations extra_allocations(const config::Options& options, const RankLayout& division, const StagePlan& stages,
                                         Purpose purpose, int rank) {
  return [=](zero::Engine& engine, Memory& memory) {
    take_runner(options, stages, engine, nullptr, memory);
    if (purpose == Purpose::weights) take_export_piece(engine, memory);
    if (purpose != Purpose::train) return;
    if (!options.output.export_dir.empty()) take_export_piece(engine, memory);
    take_synchroniser(options, engine, node_groups(rank, division.ranks, division.sync_group_size), memory);
    take_checkpoint_copy(options, engine, memory);
  };
}

}  // namespace shoal::app
