// SPDX-License-Identifier: Apache-2.0
// What Hugging Face's transformers knows our GPT by: its config.json and the names of its tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/model/model.hpp"

namespace shoal::model {

/// config.json as GPT2Config reads it; empty for a model that transformers has no class for.
std::string config_json(const ModelOptions& options);

/// Where a config.json (its text) describes another model than options do, one sentence each. Fields that are absent have
/// GPT2Config's defaults.
std::vector<std::string> disagreements(const std::string& config_json, const ModelOptions& options);

/// Our name of a tensor in a file (which may lack the prefix "transformer."); none for the constant buffers that older
/// files hold: the causal mask and its fill value.
std::optional<std::string> canonical_name(std::string_view name);

}  // namespace shoal::model
