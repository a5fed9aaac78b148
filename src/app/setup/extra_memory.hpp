// SPDX-License-Identifier: Apache-2.0
// Memory that a run takes besides that of its engine.
#pragma once

#include <optional>

#include "app/setup/pipeline_setup.hpp"
#include "app/setup/purpose.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/base/memory.hpp"
#include "shoal/config/options.hpp"
#include "shoal/pipeline/runner.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/sync/synchroniser.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// What makes nodes train locally, if sync.kind is not every_step.
std::optional<sync::Synchroniser> take_synchroniser(const config::Options& options, zero::Engine& engine,
                                                    const sync::NodeGroups& groups, Memory& memory);
/// What executes the list of this rank's stage. group: the ranks of its pipeline; null if it only counts memory.
pipeline::Runner take_runner(const config::Options& options, const StagePlan& stages, zero::Engine& engine,
                             comm::Communicator* group, Memory& memory);
/// Memory for the copy of this rank's states that checkpoint.async makes; empty without it.
Span<float> take_checkpoint_copy(const config::Options& options, zero::Engine& engine, Memory& memory);

/// Takes the memory in which export_weights() gathers units, one piece after another: at most 4 MiB of the host's.
Span<float> take_export_piece(const zero::Engine& engine, Memory& memory);

/// The memory that data-parallel rank `rank` of stage stages.shape.stage takes in addition to its engine, for its plan.
plan::ExtraAllocations extra_allocations(const config::Options& options, const RankLayout& division, const StagePlan& stages,
                                         Purpose purpose, int rank = 0);

}  // namespace shoal::app
