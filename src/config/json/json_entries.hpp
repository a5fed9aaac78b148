// SPDX-License-Identifier: Apache-2.0
// The keys of a JSON text, with their lines.
#pragma once

#include <cstddef>
#include <string>
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

}  // namespace shoal::config
