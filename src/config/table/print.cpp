// SPDX-License-Identifier: Apache-2.0
// Prints all options as a deck, and lists them as pairs.
#include <algorithm>

#include "shoal/config/options.hpp"
#include "shoal/config/table.hpp"

namespace shoal::config {

namespace {

/// An option whose feature is not built is printed only if it was set.
bool is_printed(const Row& row, const Options& options) {
  return row.built || value_text(row, options) != default_text(row);
}

std::string print_section(const std::string& section, const Options& options) {
  std::vector<const Row*> rows;
  std::size_t width = 0;
  for (const Row& row : table()) {
    if (section_of(row.name) != section || !is_printed(row, options)) continue;
    rows.push_back(&row);
    width = std::max(width, key_of(row.name).size());
  }
  std::string lines;
  for (const Row* const row : rows) {
    const std::string key = key_of(row->name), value = value_text(*row, options), usual = default_text(*row);
    lines += key;
    lines.append(width - key.size(), ' ');
    lines += " = " + quoted_if_needed(value);
    if (value != usual) lines += "  # default " + quoted_if_needed(usual);
    lines += '\n';
  }
  return lines;
}

}  // namespace

std::string print(const Options& options) {
  std::string deck;
  for (const std::string& section : sections()) {
    const std::string lines = print_section(section, options);
    if (lines.empty()) continue;
    deck += deck.empty() ? "[" : "\n[";
    deck += section + "]\n";
    deck += lines;
  }
  return deck;
}

std::vector<std::pair<std::string, std::string>> list(const Options& options) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Row& row : table()) pairs.emplace_back(row.name, value_text(row, options));
  return pairs;
}

std::vector<std::pair<std::string, std::string>> changed(const Options& options) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Row& row : table()) {
    const std::string value = value_text(row, options);
    if (value != default_text(row)) pairs.emplace_back(row.name, value);
  }
  return pairs;
}

}  // namespace shoal::config
