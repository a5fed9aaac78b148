// SPDX-License-Identifier: Apache-2.0
// A deck is a configuration file in the INI form that Boost.Program_options reads:
//     # comment
//     [section]
//     key = value   # comment            (or section.key = value before the first section)
// It is read line by line, so that messages can name the line of every value. A # begins a comment only at the start of a
// line or after white space: `source = a#b.txt` is one path. A value in double quotes keeps its spaces and #, with the
// escapes \" \\ \n \r \t \xHH. Windows' line ends and a byte order mark are accepted. A key given twice is an error.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/options.hpp"
#include "shoal/config/places.hpp"

namespace shoal::config {

struct Deck {
  Options options;                    ///< the defaults, changed by the deck
  std::map<std::string, Value> own;   ///< the command's own options that the deck sets
  Places places;                      ///< "FILE:LINE" of each option that the deck sets
  std::vector<std::string> problems;  ///< "FILE:LINE: ...", in the order of lines; empty if the deck has no error
};

/// own: a command's own options; those with a section in their name ("study.nodes") may stand in its decks. Reads nothing
/// but its arguments, and does not throw, whatever the text.
Deck parse_deck_text(std::string_view text, const std::string& filename, const std::vector<CommandSpec::Own>& own = {});

/// The same for a file. A file that cannot be read is reported as a problem.
Deck read_deck(const std::string& path, const std::vector<CommandSpec::Own>& own = {});

}  // namespace shoal::config
