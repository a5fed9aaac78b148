// SPDX-License-Identifier: Apache-2.0
// Reads and writes weights as Hugging Face safetensors with their config.json.
#pragma once

#include <filesystem>
#include <string>

#include "shoal/base/memory.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/model/model.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

/// Calls bad_input() if import_weights() would not accept model.init_from, or if it has a tensor under two names, such as a
/// tied embedding's and its head's, with two values: only such tensors are read, so call it on one rank. Returns a sentence
/// for the log if the names are not as the model has them and were accepted, otherwise nothing.
std::string check_weights(const model::ModelOptions& options);

/// Fills the engine's parameters from model.init_from: a directory with model.safetensors or with an index and its shards,
/// or one safetensors file. Names (match_names()) and shapes must agree with the options, and if the directory has a
/// config.json, the sizes of the model in it; the error names every difference.
void import_weights(const model::ModelOptions& options, zero::Engine& engine);

/// On rank 0: calls bad_input() unless model.safetensors and config.json may be written into this directory: they do not
/// exist, or, with `overwrite`, are those of an earlier export. The message begins with `option`.
void require_export(const std::string& option, const std::filesystem::path& directory, bool overwrite);

/// Collective: rank 0 writes directory/model.safetensors and config.json, and replaces existing ones. memory: that of
/// take_export_piece().
void export_weights(comm::World& world, const model::ModelOptions& options, zero::Engine& engine, Span<float> memory,
                    const std::filesystem::path& directory);

}  // namespace shoal::app
