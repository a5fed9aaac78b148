// SPDX-License-Identifier: Apache-2.0
// JSON as people write it into configurations, key by key with the line of each. Comments (//, /* */ and #) and trailing
// commas, which JSON does not have, are read over with a warning each; nothing else of Hjson is. The same key twice, NaN and
// a file that is cut short are problems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoal::config {

/// What stands at one key, or at one place of an array.
struct JsonEntry {
  enum class Kind { null, flag, number, text, array, object };
  std::string path;  ///< "zero_optimization.stage", "optimizer.params.betas[0]"; a key with other signs is in quotes
  Kind kind;
  std::string value;  ///< of a flag, a number (as written) or text; empty otherwise
  std::size_t line;   ///< from 1
};

struct JsonText {
  std::vector<JsonEntry> entries;     ///< in the order of the file; an object goes before what it holds
  std::vector<std::string> warnings;  ///< "FILE:LINE: ..."
  std::vector<std::string> problems;  ///< the same; empty: the text is good, and its outermost value is an object
};

/// Pure: looks at nothing but its arguments, and throws nothing for whatever text.
JsonText parse_json_text(std::string_view text, const std::string& filename);

/// The same of a file; one that cannot be read is a problem too.
JsonText read_json(const std::string& path);

}  // namespace shoal::config
