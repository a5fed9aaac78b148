// SPDX-License-Identifier: Apache-2.0
// Text as tokens of one byte or one character (UTF-8 code point) each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "shoal/data/vocabulary.hpp"

namespace shoal::data {

class TextTokenizer {
 public:
  /// Uses the vocabulary of the text: all 256 bytes, or the characters that occur in the files, sorted.
  TextTokenizer(Tokenizer unit, const std::vector<std::filesystem::path>& files);
  /// Uses the vocabulary of a tokens file, which `where` names. Its tokens must be single bytes or characters.
  TextTokenizer(Tokenizer unit, Vocabulary vocabulary, const std::string& where);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t count(const std::filesystem::path& file) const;
  /// Appends the ids of a block of whole characters at byte `offset` of the file. Errors name the file, the byte and the
  /// symbol. A block that is no text is refused, unless the tokenizer is raw.
  void encode(std::string_view block, const std::filesystem::path& file, std::size_t offset,
              std::vector<std::int32_t>& ids) const;
  /// "65 characters", "256 byte values"
  std::string description() const;

 private:
  void index(const std::string& where);
  bool of_bytes() const { return unit_ != Tokenizer::chars; }

  Tokenizer unit_;
  Vocabulary vocabulary_;
  std::vector<std::int32_t> ids_;  ///< id of each byte or code point; -1: none
};

}  // namespace shoal::data
