// SPDX-License-Identifier: Apache-2.0
// Reads JSON key by key, with the line of each key. Comments (//, /* */ and #) and trailing commas, which JSON does not
// allow, are ignored with a warning each. A key given twice, NaN and a file that ends too early are errors.
#pragma once

#include <string>
#include <string_view>

#include "config/json/json_entries.hpp"

namespace shoal::config {

/// Reads nothing but its arguments, and does not throw, whatever the text.
JsonText parse_json_text(std::string_view text, const std::string& filename);

/// The same for a file. A file that cannot be read is reported as a problem.
JsonText read_json(const std::string& path);

}  // namespace shoal::config
