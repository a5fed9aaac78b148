// SPDX-License-Identifier: Apache-2.0
#include "text_tokenizer.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "shoal/base/error.hpp"
#include "shoal/base/utf8.hpp"
#include "source_files.hpp"
#include "text_check.hpp"

namespace shoal::data {

namespace {

Character next_character(std::string_view text, std::size_t at, const std::filesystem::path& file, std::size_t offset) {
  const Character character = first_character(text.substr(at));
  if (character.length > 0 && character.code != 0) return character;  // composing the message below takes time
  bad_input(file.string(), ": byte ", offset + at, character.length == 0 ? ": not UTF-8" : " is zero: a binary file",
            "; data.tokenizer = chars reads UTF-8 text, raw reads anything");
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
    : unit_(unit), vocabulary_(of_bytes() ? byte_vocabulary() : characters_of(files)) {
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
    const bool byte = of_bytes();
    const Character symbol = byte ? Character{static_cast<unsigned char>(token[0]), 1} : first_character(token);
    require_input(symbol.length == token.size(), where, ": token ", id, " of its vocabulary is no single ",
                  byte ? "byte" : "character", " (data.tokenizer = ", shoal::name_of(unit_), ")",
                  "; text for it must pass through its own tokenizer: analysis/make_tokens.py");
    if (symbol.code >= ids_.size()) ids_.resize(symbol.code + 1, -1);
    ids_[symbol.code] = static_cast<std::int32_t>(id);
  }
}

std::size_t TextTokenizer::count(const std::filesystem::path& file) const {
  if (of_bytes()) return std::filesystem::file_size(file);
  std::size_t characters = 0;
  for_each_block(file, [&](std::string_view block, std::size_t) {
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
    characters += static_cast<std::size_t>(std::count_if(block.begin(), block.end(), begins));
  });
  return characters;
}

void TextTokenizer::encode(std::string_view block, const std::filesystem::path& file, std::size_t offset,
                           std::vector<std::int32_t>& ids) const {
  if (unit_ == Tokenizer::bytes) require_text(block, file, offset);
  const bool bytes = of_bytes();
  for (std::size_t at = 0; at < block.size();) {
    const Character symbol =
        bytes ? Character{static_cast<unsigned char>(block[at]), 1} : next_character(block, at, file, offset);
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
  return text(vocabulary_.size(), of_bytes() ? " byte values" : " characters");
}

}  // namespace shoal::data
