// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/deepspeed/deepspeed_key.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

/// Returns true for options of OneCycle, which have the names of its parameters in DeepSpeed.
bool is_of_one_cycle(const Row& row);
/// All keys of DeepSpeed 0.19.
const std::vector<DeepSpeedKey>& deepspeed_keys();
/// The row of the key; nullptr if there is none. "optimizer.params.betas[1]" has the row "optimizer.params.betas[]".
const DeepSpeedKey* find_deepspeed(std::string_view path);
/// Returns true for keys that are comments by custom, which DeepSpeed ignores: those that begin with _.
bool is_comment_key(std::string_view path);
/// "unknown key; did you mean zero_optimization.stage?"
std::string unknown_deepspeed_key(const std::string& path);

}  // namespace shoal::config
