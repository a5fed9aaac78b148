// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "shoal/config/json.hpp"

namespace shoal::config {

/// The text with comments and trailing commas blanked out, each with a warning in `json`. As long as before and with the
/// same ends of lines, so that places stay what they were.
std::string plain_json(std::string_view text, const std::string& filename, JsonText& json);

}  // namespace shoal::config
