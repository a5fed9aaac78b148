// SPDX-License-Identifier: Apache-2.0
// The two parts of the table.
#pragma once

#include <string>
#include <vector>

#include "shoal/config/row.hpp"

namespace shoal::config {

/// Options that change the results of a training: model, data, batch, train, optimizer, schedule.
std::vector<Row> training_rows();
/// Options that change where and how it is computed, and what is written: zero, comm, ..., fault.
std::vector<Row> run_rows();

/// The text of a row: what the option does, and when to change it.
inline Help about(const char* what, const char* when = "") { return {what, when}; }

/// The values of an option, rows of `table`, for which `uses` is true.
template <typename Table, typename Predicate>
UsedBy users(const std::string& option, const Table& table, Predicate uses) {
  UsedBy by{option, {}};
  for (const auto& row : table) {
    if (uses(row)) by.values.emplace_back(row.name);
  }
  return by;
}

/// An option whose feature is not built yet. Its value is stored in Options::not_built; a run accepts only the default.
Row later(const std::string& name, const Value& value, const std::string& unit, const Allowed& allowed, const Help& help);

}  // namespace shoal::config
