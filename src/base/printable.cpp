// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/printable.hpp"

#include <cstdint>
#include <cstdio>

#include "shoal/base/utf8.hpp"

namespace shoal {

namespace {

/// Returns true for control characters, line and paragraph separators, and marks that change the direction of writing.
bool is_obeyed(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200E && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string result;
  char escaped[16];
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t bytes = character.length == 0 ? 1 : character.length;
    const bool keeps = bytes == 1 && kept.find(text.front()) != std::string_view::npos;
    if (character.length > 0 && (keeps || !is_obeyed(character.code))) {
      result += text.substr(0, bytes);
    } else if (character.code == '\n') {
      result += "\\n";
    } else {
      const auto byte = static_cast<unsigned>(static_cast<std::uint8_t>(text.front()));
      std::snprintf(escaped, sizeof escaped, bytes > 1 ? "\\u{%04x}" : "\\x%02x", bytes > 1 ? character.code : byte);
      result += escaped;
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace shoal
