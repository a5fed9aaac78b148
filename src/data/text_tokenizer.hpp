// SPDX-License-Identifier: Apache-2.0
// Text as bytes or characters (UTF-8 code points), one token each.
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
  /// With the vocabulary of the text: all 256 bytes, or the characters that occur in the files, sorted.
  TextTokenizer(Tokenizer unit, const std::vector<std::filesystem::path>& files);
  /// With the vocabulary of a tokens file, named by where. Its tokens must be single bytes or characters.
  TextTokenizer(Tokenizer unit, Vocabulary vocabulary, const std::string& where);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::size_t count(const std::filesystem::path& file) const;
  /// Appends the ids of a block of whole characters that stands at byte offset of the file; errors name it, the byte and the
  /// symbol.
  void encode(std::string_view block, const std::filesystem::path& file, std::size_t offset,
              std::vector<std::int32_t>& ids) const;
  /// "65 characters", "256 byte values"
  std::string description() const;

 private:
  void index(const std::string& where);

  Tokenizer unit_;
  Vocabulary vocabulary_;
  std::vector<std::int32_t> ids_;  ///< by byte or code point; -1: none
};

}  // namespace shoal::data
