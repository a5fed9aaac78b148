// SPDX-License-Identifier: Apache-2.0
// Decks: INI as Boost.Program_options' config-file parser reads it,
//     # comment
//     [section]
//     key = value   # comment            (or section.key = value before the first section)
// but line by line, so that every value has its place. A # begins a comment at the start of a line or after white space
// only: `source = a#b.txt` is one path. A value in double quotes keeps its spaces and #, with the escapes \" \\ \n \r \t
// \xHH. Windows' line ends and a byte order mark are tolerated; a key given twice is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shoal/config/options.hpp"
#include "shoal/config/places.hpp"

namespace shoal::config {

struct Deck {
  Options options;                    ///< the defaults, and what the deck sets
  Places places;                      ///< "FILE:LINE"
  std::vector<std::string> problems;  ///< "FILE:LINE: ...", in the order of lines; empty: the deck is good
};

/// Pure: looks at nothing but its arguments, and throws nothing for whatever text.
Deck parse_deck_text(std::string_view text, const std::string& filename);

/// The same of a file; one that cannot be read is a problem too.
Deck read_deck(const std::string& path);

}  // namespace shoal::config
