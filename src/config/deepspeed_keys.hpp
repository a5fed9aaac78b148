// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/table.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

/// A key of a DeepSpeed configuration.
struct DeepSpeedKey {
  enum class Role {
    block,       ///< an object whose keys have rows
    list,        ///< an array whose elements have the row PATH[]
    option,      ///< an option under another name
    used,        ///< translated together with other keys (deepspeed_sharding.cpp, deepspeed_training.cpp)
    irrelevant,  ///< has no effect here
    idle_block,  ///< an object without effect here; its members are not read
    absent,      ///< needs a feature that is not built, unless its value is one of `harmless`
    feature,  ///< an object that needs a feature that is not built, unless it has "enabled": false; its members are not read
    refused,  ///< no longer supported by DeepSpeed
  };
  std::string path;
  Role role;
  Value type;  ///< for option, used, irrelevant and absent
  Allowed allowed;
  std::string text;  ///< option: its name; irrelevant, idle_block: why; absent, feature: what exists instead; refused: what
                     ///< to write instead
  std::vector<std::string> harmless = {};
};

/// Returns true for options of OneCycle, which have the names of its parameters in DeepSpeed.
bool is_of_one_cycle(const Row& row);
/// All keys of DeepSpeed 0.19.
const std::vector<DeepSpeedKey>& deepspeed_keys();
/// The row of the key; nullptr if there is none. "optimizer.params.betas[1]" has the row "optimizer.params.betas[]".
const DeepSpeedKey* find_deepspeed(std::string_view path);
/// Returns true if the text "auto" means the default there, as in the blocks that the base class of DeepSpeed's
/// configuration classes reads.
bool takes_auto(std::string_view path);
/// "unknown key; did you mean zero_optimization.stage?"
std::string unknown_deepspeed_key(const std::string& path);

}  // namespace shoal::config
