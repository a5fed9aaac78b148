// SPDX-License-Identifier: Apache-2.0
// What find() knows of a source: all that open() needs but the tokens of text.
#pragma once

#include <string>
#include <vector>

#include "shoal/data/vocabulary.hpp"
#include "shoal/io/token_file.hpp"

namespace shoal::data {

struct FoundSource {
  std::string name;  ///< "a.txt", or "3 files"
  std::string description;
  std::size_t vocab_size = 0;
  Vocabulary vocabulary;
  std::vector<io::TokenLayout> files;  ///< none: the source is text
};

/// As bytes for other ranks, and back.
std::string pack_source(const FoundSource& source);
FoundSource unpack_source(const std::string& bytes);

}  // namespace shoal::data
