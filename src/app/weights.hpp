// SPDX-License-Identifier: Apache-2.0
// Weights in and out as Hugging Face safetensors with their config.json.
#pragma once

#include <filesystem>
#include <string>

#include "shoal/comm/world.hpp"
#include "shoal/model/model.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// Whether model.init_from fits the model, as import_weights() finds it, without reading a tensor: an error if not.
void check_weights(const model::ModelOptions& options);

/// Fills the engine's parameters from model.init_from: a directory with model.safetensors or with an index and its shards,
/// or one safetensors file. Names, shapes and, where the directory has a config.json, the model's sizes must agree with the
/// options; every disagreement is named.
void import_weights(const model::ModelOptions& options, zero::Engine& engine);

/// Rank 0: bad_input() unless model.safetensors and config.json may be written into this directory: they are not there, or,
/// where `overwrite`, are of an earlier export. option leads the message.
void require_export(const std::string& option, const std::filesystem::path& directory, bool overwrite);

/// Writes directory/model.safetensors and config.json, over what is there. Rank 0 writes; all ranks wait.
void export_weights(comm::World& world, const model::ModelOptions& options, zero::Engine& engine,
                    const std::filesystem::path& directory);

}  // namespace shoal::app
