// SPDX-License-Identifier: Apache-2.0
#include "shoal/config/wall_time.hpp"

#include <charconv>
#include <cstdio>
#include <vector>

namespace shoal::config {

namespace {

/// Reads digits alone, at most `most` of them: so that no sum overflows.
std::optional<std::uint64_t> digits(std::string_view text, std::size_t least, std::size_t most) {
  std::uint64_t value = 0;
  if (text.size() < least || text.size() > most) return std::nullopt;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> wall_time(std::string_view text) {
  constexpr std::size_t longest = 9;
  std::optional<std::uint64_t> days;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    days = digits(text.substr(0, dash), 1, longest);
    if (!days) return std::nullopt;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::uint64_t> fields;
  while (true) {
    const std::size_t colon = text.find(':');
    const bool first = fields.empty();
    const auto field = digits(text.substr(0, colon), first ? 1 : 2, first ? longest : 2);
    if (!field || (!first && *field >= 60)) return std::nullopt;
    fields.push_back(*field);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (fields.size() > 3 || fields.size() < (days ? 3U : 2U) || (days && fields.front() >= 24)) return std::nullopt;
  std::uint64_t seconds = 0;
  for (const std::uint64_t field : fields) seconds = 60 * seconds + field;
  return days.value_or(0) * 86400 + seconds;
}

std::string wall_time_text(std::uint64_t seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%02llu:%02llu:%02llu", static_cast<unsigned long long>(seconds / 3600),
                static_cast<unsigned long long>(seconds / 60 % 60), static_cast<unsigned long long>(seconds % 60));
  return text;
}

}  // namespace shoal::config
