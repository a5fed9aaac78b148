// SPDX-License-Identifier: Apache-2.0
// Prints values: numbers in their shortest exact form, texts in quotes if a deck needs them.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "shoal/config/value.hpp"

namespace shoal::config {

namespace {

/// The shortest text that is read back exactly, with an exponent without leading zeros: 3e-4.
template <typename Number>
std::string shortest(Number value) {
  char digits[64];
  const auto [end, status] = std::to_chars(std::begin(digits), std::end(digits), value);
  std::string text(digits, end);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos) {
    text.erase(exponent + 2, text.find_first_not_of('0', exponent + 2) - exponent - 2);
  }
  return text;
}

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Returns true if the reader of decks would misread the text without quotes.
bool needs_quotes(const std::string& text) {
  if (text.empty() || is_space(text.front()) || is_space(text.back()) || text.front() == '"' || text.front() == '#')
    return true;
  if (std::any_of(text.begin(), text.end(), is_control)) return true;
  return text.find(" #") != std::string::npos;
}

std::string escaped(char c) {
  constexpr char digits[] = "0123456789abcdef";
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  if (!is_control(c)) return {c};
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4U], digits[byte & 15U]};
}

}  // namespace

std::string print(const Value& value, const Allowed& allowed) {
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  const auto number = [&](auto exact) {
    const bool is_word = !allowed.word.empty() && static_cast<double>(exact) == allowed.sentinel;
    return is_word ? allowed.word : shortest(exact);
  };
  if (const auto* const real = std::get_if<double>(&value)) return number(*real);
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return number(*whole);
  return number(std::get<std::uint64_t>(value));
}

std::string quoted_if_needed(const std::string& text) {
  if (!needs_quotes(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += escaped(c);
  return quoted + "\"";
}

std::string_view trimmed(std::string_view text, std::string_view spaces) {
  const std::size_t begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result(text.substr(0, longest));
  std::replace_if(result.begin(), result.end(), is_control, '?');
  return text.size() > longest ? result + "..." : result;
}

}  // namespace shoal::config
