// SPDX-License-Identifier: Apache-2.0
// Reads JSON key by key, with the line of each key. Comments (//, /* */ and #) and trailing commas, which JSON does not
// allow, are ignored with a warning each. A key given twice, NaN and a file that ends too early are errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal::config {

/// The value of one key, or of one element of an array.
struct JsonEntry {
  enum class Kind { null, flag, number, text, array, object };
  std::string path;  ///< "zero_optimization.stage", "optimizer.params.betas[0]"; a key with other characters is in quotes
  Kind kind;
  std::string value;  ///< of a flag, a number (as written) or text; empty for other kinds
  std::size_t line;   ///< from 1
};

struct JsonText {
  std::vector<JsonEntry> entries;     ///< in the order of the file; an object comes before its members
  std::vector<std::string> warnings;  ///< "FILE:LINE: ..."
  std::vector<std::string> problems;  ///< the same; empty if the text has no error and its outermost value is an object
};

/// Reads nothing but its arguments, and does not throw, whatever the text.
JsonText parse_json_text(std::string_view text, const std::string& filename);

/// The same for a file. A file that cannot be read is reported as a problem.
JsonText read_json(const std::string& path);

}  // namespace shoal::config
