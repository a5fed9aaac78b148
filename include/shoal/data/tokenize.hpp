// SPDX-License-Identifier: Apache-2.0
// Text files to a tokens file.
#pragma once

#include <filesystem>
#include <string>

#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

struct TokenizeCounts {
  std::size_t files = 0, bytes = 0, tokens = 0, vocab_size = 0;
};

/// inputs: a path, a list or a pattern, as data.source. tokenizer: bytes, chars. vocabulary: a tokens file whose vocabulary
/// is used, so that later texts have the same ids; empty: the text's own. The output must not exist, or be a tokens file
/// that may be replaced (overwrite); it appears when it is complete. One rank's work, block by block: the text may be larger
/// than memory.
TokenizeCounts tokenize(const std::string& inputs, Tokenizer tokenizer, const std::string& vocabulary,
                        const std::filesystem::path& output, bool overwrite = false);

/// The vocabulary of a tokens file; one without is an Error (bad_input).
Vocabulary read_vocabulary(const std::filesystem::path& tokens_file);

}  // namespace shoal::data
