// SPDX-License-Identifier: Apache-2.0
// Queries of the table. Its rows are in rows_training.cpp and rows_run.cpp.
#include "shoal/config/table.hpp"

#include <algorithm>

#include "config/table/rows.hpp"

namespace shoal::config {

const std::vector<Row>& table() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows = training_rows();
    for (Row& row : run_rows()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

const Row* find(std::string_view name) {
  const auto row = std::find_if(table().begin(), table().end(), [&](const Row& each) { return each.name == name; });
  return row == table().end() ? nullptr : &*row;
}

std::string section_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string() : std::string(name.substr(0, dot));
}

std::string key_of(std::string_view name) { return std::string(name.substr(name.find('.') + 1)); }  // npos + 1 is 0

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Row& row : table()) {
    std::string section = section_of(row.name);
    if (names.empty() || names.back() != section) names.push_back(std::move(section));
  }
  return names;
}

std::string value_text(const Row& row, const Options& options) { return print(row.member.get(options), row.allowed); }

std::string default_text(const Row& row) {
  static const Options defaults;
  return value_text(row, defaults);
}

bool is_used(const Row& row, const Options& options) {
  const auto uses = [&](const UsedBy& by) {
    const Row& decides = *find(by.option);  // it may itself depend on a third option
    const auto& values = by.values;
    return is_used(decides, options) &&
           std::find(values.begin(), values.end(), value_text(decides, options)) != values.end();
  };
  if (!row.used_by_any.empty()) return std::any_of(row.used_by_any.begin(), row.used_by_any.end(), uses);
  return row.used_by.option.empty() || uses(row.used_by);
}

bool is_built(const Row& row, const Options& options) {
  const std::string value = value_text(row, options);
  if (!row.built) return value == default_text(row);
  const std::vector<std::string>& absent = row.allowed.not_built;
  return std::find(absent.begin(), absent.end(), value) == absent.end();
}

std::string unknown_option(const std::string& name) {
  const std::string section = section_of(name), key = key_of(name);
  std::vector<std::string> names, keys, elsewhere;
  for (const Row& row : table()) {
    names.push_back(row.name);
    if (section_of(row.name) == section) keys.push_back(key_of(row.name));
    if (key_of(row.name) == key) elsewhere.push_back(row.name);
  }
  // Look for a misspelt key of this section first, then for this key in other sections, then for a similar name.
  std::string meant = nearest(key, keys);
  if (!meant.empty()) meant = section + "." + meant;
  if (meant.empty() && !elsewhere.empty()) meant = elsewhere.front();
  if (meant.empty()) meant = nearest(name, names);
  if (!meant.empty()) return "unknown option; did you mean " + meant + "?";
  if (!keys.empty()) return "unknown option; section " + section + " has " + joined(keys);
  return "unknown option; options are named section.key, with the sections " + joined(sections());
}

}  // namespace shoal::config
