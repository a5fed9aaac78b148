// SPDX-License-Identifier: Apache-2.0
// How Hugging Face's transformers library describes our GPT: its config.json and the names of its tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

/// config.json as GPT2Config reads it. Empty for a model that transformers has no class for, such as a GPT with a direct
/// connection.
std::string config_json(const ModelOptions& options);

/// Compares a config.json, given as text, with the options: returns one sentence for each difference between the models, and
/// only one if it describes another kind of model. Absent fields have GPT2Config's defaults.
std::vector<std::string> disagreements(const std::string& config_json, const ModelOptions& options);

/// Our name of a tensor in a file, in which the prefix "transformer." may be missing. A tied head's weight, which some files
/// hold too, is the embedding's. No name for the constants that older files contain: the causal mask and its fill value.
std::optional<std::string> canonical_name(std::string_view name, const ModelOptions& options);

}  // namespace shoal::model
