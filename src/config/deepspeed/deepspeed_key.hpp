// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

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

}  // namespace shoal::config
