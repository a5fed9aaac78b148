// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shoal {

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 0;  ///< bytes; 0: not UTF-8
};

/// The first character of a text that is not empty. Overlong forms, surrogates and numbers beyond Unicode are not valid
/// UTF-8.
inline Character first_character(std::string_view text) {
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
  if (code < smallest[length] || code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

}  // namespace shoal
