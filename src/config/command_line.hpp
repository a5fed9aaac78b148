// SPDX-License-Identifier: Apache-2.0
// The command line as text: which options were given, in which words. What they mean is parse.cpp's.
#pragma once

#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

struct CommandLine {
  struct Given {
    std::string name, value;
  };
  std::vector<Given> options;            ///< known ones, in their order
  std::vector<std::string> positionals;  ///< words that are no option
  std::vector<std::string> problems;
  bool unclear = false;           ///< a positional may be the value of an option that is not known
  bool help = false;              ///< --help
  bool help_as_markdown = false;  ///< --help=markdown
};

/// --name=value and --name value, no abbreviations; a switch alone is true, and takes a value by = only. What follows -- is
/// no option.
CommandLine read_command_line(const CommandSpec& command, int argc, const char* const* argv);

}  // namespace shoal::config
