// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "config/json/json_entries.hpp"

namespace shoal::config {

/// The text with comments and trailing commas replaced by spaces, and a warning for each in `json`. Its length and its ends
/// of lines stay the same, so that places in it do.
std::string plain_json(std::string_view text, const std::string& filename, JsonText& json);

}  // namespace shoal::config
