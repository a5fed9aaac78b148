// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/notation.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "shoal/base/error.hpp"

namespace shoal {

namespace {

constexpr int most_ranks = 1048576;
constexpr std::string_view dots = "...";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Splits a list at its commas.
std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    words.push_back(trimmed(list.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return words;
}

std::optional<int> rank_count(std::string_view word) {
  int count = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), count);
  if (status != std::errc() || end != word.data() + word.size() || count < 1 || count > most_ranks) return std::nullopt;
  return count;
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array units = {Unit{"B", 1},        Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
                              Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"kB", 1e3},
                              Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12}};

}  // namespace

std::vector<int> rank_counts(std::string_view list, std::string_view option) {
  const auto refuse = [&](const auto&... why) {
    bad_input(option, list, ": ", why..., "; allowed: whole numbers from 1 to ", most_ranks,
              " between commas, as 1,2,4,6; dots between two of them double: 1,2,4,...,1024");
  };
  std::vector<int> counts;
  bool doubling = false;
  for (const std::string_view word : words_of(list)) {
    if (word == dots) {
      if (counts.empty() || doubling) refuse("no number before the dots");
      doubling = true;
      continue;
    }
    const std::optional<int> count = rank_count(word);
    if (!count) refuse(word.empty() ? "a number is missing" : text(word, " is no number of ranks"));
    if (doubling) {
      const int from = counts.back();
      while (counts.back() < *count / 2) counts.push_back(2 * counts.back());
      if (2 * counts.back() != *count) refuse("doubling ", from, " does not lead to ", *count);
    }
    counts.push_back(*count);
    doubling = false;
  }
  if (doubling) refuse("no number after the dots");
  return counts;
}

std::size_t parse_bytes(std::string_view size, std::string_view option) {
  const std::string_view whole = trimmed(size);
  double number = 0;
  const auto [end, status] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  const std::string_view unit = trimmed(whole.substr(static_cast<std::size_t>(end - whole.data())));
  for (const Unit& known : units) {
    if (status != std::errc() || unit != known.name) continue;
    const double result = number * known.bytes;
    if (result >= 1 && result <= 0x1p60) return static_cast<std::size_t>(result);
  }
  bad_input(option, " ", size, ": not a size; allowed: a number above 0 with its unit, as 24GiB, 512MiB or 80GB");
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %s", decimals, value, names[unit]);
  return buffer.data();
}

}  // namespace shoal
