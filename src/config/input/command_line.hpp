// SPDX-License-Identifier: Apache-2.0
// The command line as text: which options were given, with which values. parse.cpp reads the values.
#pragma once

#include <string>
#include <vector>

#include "shoal/config/options.hpp"

namespace shoal::config {

struct CommandLine {
  struct Given {
    std::string name, value;
  };
  std::vector<Given> options;            ///< those with a known name, in the order of the line
  std::vector<std::string> positionals;  ///< words that are not options
  std::vector<std::string> problems;
  bool unclear = false;           ///< a positional may be the value of an unknown option
  bool help = false;              ///< --help
  bool help_as_markdown = false;  ///< --help=markdown
};

/// Reads --name=value and --name value; names cannot be abbreviated. A switch without a value is true; its value can only be
/// given with =. Words after -- are not options.
CommandLine read_command_line(const CommandSpec& command, int argc, const char* const* argv);

}  // namespace shoal::config
