// SPDX-License-Identifier: Apache-2.0
// Translates a DeepSpeed configuration (ds_config.json, as of DeepSpeed 0.19) to options of this program.
// src/config/deepspeed_keys.cpp has a row for every key of DeepSpeed; a key without a row is an error. A key is translated,
// or has no effect here (a note gives the reason), or needs a feature that is not built yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shoal/config/json.hpp"
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

/// others, places: the options of the deck and the command line, and where they were set. The meaning of some keys depends
/// on them (on the stage, the precision and the depth of the model).
DeepSpeedTranslation translate_deepspeed(const JsonText& json, const std::string& filename, const Options& others,
                                         const Places& places);

}  // namespace shoal::config
