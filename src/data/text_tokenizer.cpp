// SPDX-License-Identifier: Apache-2.0
#include "text_tokenizer.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "shoal/base/error.hpp"
#include "source_files.hpp"

namespace shoal::data {

namespace {

constexpr std::uint32_t code_points = 0x110000;

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 0;  ///< bytes; 0: not UTF-8
};

/// The first character of the text. Overlong forms, surrogates and numbers beyond Unicode are not valid UTF-8.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC0 || lead >= 0xF8 || text.size() < length) return {};
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < smallest[length] || code >= code_points || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

Character next_character(std::string_view text, std::size_t at, const std::filesystem::path& file, std::size_t offset) {
  const Character character = first_character(text.substr(at));
  if (character.length > 0 && character.code != 0) return character;  // composing the message below takes time
  bad_input(file.string(), ": byte ", offset + at, character.length == 0 ? ": not UTF-8" : " is zero: a binary file",
            "; data.tokenizer = chars reads UTF-8 text, bytes reads anything");
}

/// As in a message: "x" (U+0078).
std::string printed(std::string_view bytes, std::uint32_t code) {
  std::ostringstream out;
  if (bytes.size() > 1 || (code >= 0x20 && code < 0x7F)) out << '"' << bytes << "\" ";
  out << "(U+" << std::hex << std::uppercase << std::setw(4) << std::setfill('0') << code << ')';
  return out.str();
}

Vocabulary characters_of(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> seen(0x80);  // the bytes of each code point
  for (const std::filesystem::path& file : files) {
    for_each_block(file, [&](std::string_view block, std::size_t offset) {
      for (std::size_t at = 0; at < block.size();) {
        const Character character = next_character(block, at, file, offset);
        if (character.code >= seen.size()) seen.resize(character.code + 1);
        if (seen[character.code].empty()) seen[character.code] = block.substr(at, character.length);
        at += character.length;
      }
    });
  }
  std::erase(seen, "");
  return seen;
}

}  // namespace

TextTokenizer::TextTokenizer(Tokenizer unit, const std::vector<std::filesystem::path>& files)
    : unit_(unit), vocabulary_(unit_ == Tokenizer::bytes ? byte_vocabulary() : characters_of(files)) {
  index(name_of(files));
}

TextTokenizer::TextTokenizer(Tokenizer unit, Vocabulary vocabulary, const std::string& where)
    : unit_(unit), vocabulary_(std::move(vocabulary)) {
  index(where);
}

void TextTokenizer::index(const std::string& where) {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string& token = vocabulary_[id];
    if (token.empty()) continue;
    const bool byte = unit_ == Tokenizer::bytes;
    const Character symbol = byte ? Character{static_cast<unsigned char>(token[0]), 1} : first_character(token);
    require_input(symbol.length == token.size(), where, ": token ", id, " of its vocabulary is no single ",
                  byte ? "byte (data.tokenizer = bytes)" : "character (data.tokenizer = chars)",
                  "; text for it must pass through its own tokenizer: analysis/tokenize.py");
    if (symbol.code >= ids_.size()) ids_.resize(symbol.code + 1, -1);
    ids_[symbol.code] = static_cast<std::int32_t>(id);
  }
}

std::size_t TextTokenizer::count(const std::filesystem::path& file) const {
  if (unit_ == Tokenizer::bytes) return std::filesystem::file_size(file);
  std::size_t characters = 0;
  for_each_block(file, [&](std::string_view block, std::size_t) {
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
    characters += static_cast<std::size_t>(std::count_if(block.begin(), block.end(), begins));
  });
  return characters;
}

void TextTokenizer::encode(std::string_view block, const std::filesystem::path& file, std::size_t offset,
                           std::vector<std::int32_t>& ids) const {
  for (std::size_t at = 0; at < block.size();) {
    const Character symbol = unit_ == Tokenizer::bytes ? Character{static_cast<unsigned char>(block[at]), 1}
                                                       : next_character(block, at, file, offset);
    const std::int32_t id = symbol.code < ids_.size() ? ids_[symbol.code] : -1;
    if (id < 0) {
      bad_input(file.string(), ": byte ", offset + at, ": ", printed(block.substr(at, symbol.length), symbol.code),
                " is not in the vocabulary of ", vocabulary_.size(), " symbols");
    }
    ids.push_back(id);
    at += symbol.length;
  }
}

std::string TextTokenizer::description() const {
  return text(vocabulary_.size(), unit_ == Tokenizer::bytes ? " byte values" : " characters");
}

}  // namespace shoal::data
