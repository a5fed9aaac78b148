// SPDX-License-Identifier: Apache-2.0
// A DeepSpeed configuration (ds_config.json, as of DeepSpeed 0.19) as options of this program. src/config/deepspeed_keys.cpp
// has a row for every key that DeepSpeed knows; what has none is refused. A key is translated, or cannot matter here (a
// note says why), or asks for what is not built yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shoal/config/json.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {

/// An option's value.
struct DeepSpeedSetting {
  std::string option;
  Value value;
  bool said;          ///< false: it follows from the file (DeepSpeed's default, say), and yields to a deck
  std::string place;  ///< "FILE:LINE (KEY)"
};

struct DeepSpeedTranslation {
  std::vector<DeepSpeedSetting> settings;
  DeepSpeedRest rest;
  std::vector<DeepSpeedAbsent> absent;  ///< what asks for a feature that is not there
  std::vector<std::string> notes;       ///< "FILE:LINE: ...", in the order of lines
  std::vector<std::string> problems;    ///< the same; empty: the file is good
};

/// others, places: what the deck and the command line say; the meaning of some keys depends on it (the stage, the
/// precision, the depth of the model).
DeepSpeedTranslation translate_deepspeed(const JsonText& json, const std::string& filename, const Options& others,
                                         const Places& places);

}  // namespace shoal::config
