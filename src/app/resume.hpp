// SPDX-License-Identifier: Apache-2.0
// What a run goes on from: the checkpoint that checkpoint.resume names, read into the states.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "setup.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/checkpoint_directory.hpp"

namespace shoal::app {

/// The checkpoints that are there at the start. Collective: rank 0 looks, the others get null.
std::unique_ptr<io::CheckpointDirectory> open_checkpoint_directory(comm::World& world, const config::Options& options);

using Resumed = io::LoadedCheckpoint;

/// Loads parameters, moments and what else the next step needs from what checkpoint.resume names: the file itself, or
/// (latest) the newest whole checkpoint of the run that output.dir holds; where it holds none, of the one run that the
/// directory's checkpoints are of. Nothing where nothing is to be resumed: asked not to, or truly no checkpoint is there.
/// Options that shape the trajectory and differ from the checkpoint's are named in the log. Collective.
std::optional<Resumed> resume(comm::World& world, const Setup& setup, Machine& machine, io::CheckpointDirectory* directory);

/// Parameters alone, for evaluation, generation and export.
void load_parameters(comm::World& world, const std::filesystem::path& file, zero::Engine& engine);

}  // namespace shoal::app
