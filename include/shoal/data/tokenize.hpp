// SPDX-License-Identifier: Apache-2.0
// Makes a tokens file of text files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

struct TokenizeCounts {
  std::size_t files = 0, bytes = 0, tokens = 0, vocab_size = 0;
};

/// inputs: each is a path, a list or a pattern, as data.source is. vocabulary: a tokens file whose vocabulary is used, so
/// that several texts have the same ids; empty: the vocabulary of the text. The output must not exist, or be a tokens file
/// if `overwrite` is true; it appears under its name when it is complete. One rank does the work, block by block: the text
/// may be larger than memory.
TokenizeCounts tokenize(const std::vector<std::string>& inputs, Tokenizer tokenizer, const std::string& vocabulary,
                        const std::filesystem::path& output, bool overwrite = false);

/// The vocabulary of a tokens file. Fails (bad_input) if the file has none.
Vocabulary read_vocabulary(const std::filesystem::path& tokens_file);

}  // namespace shoal::data
