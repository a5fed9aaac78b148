// SPDX-License-Identifier: Apache-2.0
// Which tensor of a file of weights is which of the model's, decided from headers alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shoal/io/safetensors.hpp"
#include "shoal/model/model.hpp"

namespace shoal::app {

struct WeightNames {
  /// Two names in the file of one tensor of the model, which has our name `ours`: their values must be equal.
  struct Copy {
    std::string name, other, ours;
  };
  std::map<std::string, std::string> in_file;  ///< the file's name of every tensor of the model, by our name
  std::vector<Copy> copies;                    ///< in_file has the name `name`
  std::string note;  ///< for the log: a sentence on what was not as the model has it and was accepted; may be empty
};

/// Finds every tensor of the model, with its shape and a dtype that can be read, and no others. If all names begin with the
/// same foreign prefix, as those of a model in a wrapper do (`_orig_mod.`, `module.`), they are taken without it. Otherwise
/// bad_input(): each line begins with `source`, and one sentence stands for what all tensors have in common.
WeightNames match_names(const model::ModelOptions& options, const std::map<std::string, io::SafetensorsEntry>& entries,
                        const std::string& source);

}  // namespace shoal::app
