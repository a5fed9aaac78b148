// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/printable.hpp"

#include <cstdint>
#include <cstdio>

namespace shoal {

namespace {

struct Symbol {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: these bytes are not UTF-8
};

/// Decodes the first code point of a text. Rejects overlong forms, surrogates and code points above U+10FFFF.
Symbol symbol_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xF0 && first < 0xF8   ? 4
                            : first >= 0xE0 && first < 0xF0 ? 3
                            : first >= 0xC0 && first < 0xE0 ? 2
                                                            : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, bytes};
}

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
    const Symbol symbol = symbol_at(text);
    const std::size_t bytes = symbol.bytes == 0 ? 1 : symbol.bytes;
    const bool keeps = bytes == 1 && kept.find(text.front()) != std::string_view::npos;
    if (symbol.bytes > 0 && (keeps || !is_obeyed(symbol.code))) {
      result += text.substr(0, bytes);
    } else if (symbol.code == '\n') {
      result += "\\n";
    } else {
      const auto byte = static_cast<unsigned>(static_cast<std::uint8_t>(text.front()));
      std::snprintf(escaped, sizeof escaped, bytes > 1 ? "\\u{%04x}" : "\\x%02x", bytes > 1 ? symbol.code : byte);
      result += escaped;
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace shoal
