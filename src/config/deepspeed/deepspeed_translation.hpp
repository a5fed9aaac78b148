// SPDX-License-Identifier: Apache-2.0
// The result of translating a DeepSpeed configuration.
#pragma once

#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

/// The value that the file gives to an option.
struct DeepSpeedSetting {
  std::string option;
  Value value;
  bool is_explicit;   ///< false: only implied, for example by a default of DeepSpeed; a deck overrides it
  std::string place;  ///< "FILE:LINE (KEY)"
  std::string path;   ///< the key, or the block that implies the value
};

struct DeepSpeedTranslation {
  std::vector<DeepSpeedSetting> settings;
  DeepSpeedRest rest;
  std::vector<DeepSpeedAbsent> absent;  ///< keys that need a feature that is not built yet
  std::vector<std::string> notes;       ///< "FILE:LINE: ...", in the order of lines
  std::vector<std::string> problems;    ///< the same; empty if the file has no error
};

}  // namespace shoal::config
