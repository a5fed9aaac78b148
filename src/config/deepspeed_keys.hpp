// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/table.hpp"
#include "shoal/config/value.hpp"

namespace shoal::config {

/// A key of DeepSpeed's configuration.
struct DeepSpeedKey {
  enum class Role {
    block,       ///< an object whose keys have rows
    list,        ///< an array whose elements have the row PATH[]
    option,      ///< an option by another name
    used,        ///< translated together with other keys (deepspeed_blocks.cpp)
    irrelevant,  ///< has no effect here, whatever its value
    idle_block,  ///< an object that changes no training, whatever it holds, which is not read
    absent,      ///< asks for what is not built, unless it has one of `harmless`
    feature,     ///< a block that asks for what is not built, unless it has "enabled": false; what it holds is not read
    refused,     ///< DeepSpeed has it no more
  };
  std::string path;
  Role role;
  Value type;  ///< of option, used, irrelevant and absent
  Allowed allowed;
  std::string
      text;  ///< option: its name; irrelevant, idle_block: why; absent, feature: what there is; refused: what to write
  std::vector<std::string> harmless = {};
};

/// Options that DeepSpeed's OneCycle alone has, by the same names.
bool is_of_one_cycle(const Row& row);
/// All that DeepSpeed 0.19 knows.
const std::vector<DeepSpeedKey>& deepspeed_keys();
/// nullptr if there is none. path: "optimizer.params.betas[1]" has the row "optimizer.params.betas[]".
const DeepSpeedKey* find_deepspeed(std::string_view path);
/// Whether the text "auto" means the default there, as in those of DeepSpeed's blocks that its base class reads.
bool takes_auto(std::string_view path);
/// "unknown key; did you mean zero_optimization.stage?"
std::string unknown_deepspeed_key(const std::string& path);

}  // namespace shoal::config
