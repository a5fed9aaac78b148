// SPDX-License-Identifier: Apache-2.0
// Resuming: reads the checkpoint that checkpoint.resume names into the states.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "app/setup/assembly.hpp"
#include "app/setup/resolve.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/checkpoint_directory.hpp"

namespace shoal::app {

/// The checkpoints in checkpoint.dir at the start of the run. Collective; null on ranks other than 0.
std::unique_ptr<io::CheckpointDirectory> open_checkpoint_directory(comm::World& world, const config::Options& options);

using Resumed = io::LoadedCheckpoint;

/// Loads parameters, moments and the rest of the state from the checkpoint that checkpoint.resume names: a file, a run's
/// directory (checkpoint_of()), or (latest) the newest complete checkpoint of the run in output.dir; if output.dir holds no
/// run, of the one run whose checkpoints are in checkpoint.dir. Returns nothing if checkpoint.resume = none, or if there is
/// no checkpoint. The log names the options that change the losses and differ from the checkpoint's. Collective.
std::optional<Resumed> resume(comm::World& world, const ResolvedRun& resolved, Assembly& assembly,
                              io::CheckpointDirectory* directory);

/// Loads the parameters alone, for evaluation, generation and export.
void load_parameters(comm::World& world, const std::filesystem::path& file, zero::Engine& engine);

}  // namespace shoal::app
