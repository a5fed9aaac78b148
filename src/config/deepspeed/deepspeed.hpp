// SPDX-License-Identifier: Apache-2.0
// Translates a DeepSpeed configuration (ds_config.json, as of DeepSpeed 0.19) to options of this program.
// src/config/deepspeed/deepspeed_keys.cpp has a row for every key of DeepSpeed; a key without a row is an error. A key is
// translated, or has no effect here (a note gives the reason), or needs a feature that is not built yet.
#pragma once

#include <string>

#include "config/deepspeed/deepspeed_translation.hpp"
#include "config/json/json_entries.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {

/// others, places: the options of the deck and the command line, and where they were set. The meaning of some keys depends
/// on them (on the stage, the precision and the depth of the model).
DeepSpeedTranslation translate_deepspeed(const JsonText& json, const std::string& filename, const Options& others,
                                         const Places& places);

}  // namespace shoal::config
