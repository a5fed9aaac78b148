// SPDX-License-Identifier: Apache-2.0
#include "app/setup/stage_rows.hpp"

#include <string>
#include <utility>

#include "app/support/cells.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"

namespace shoal::app {

namespace {

/// "0-2, 5-6": first and last unit of each part.
std::string units_text(const StageRow& row) {
  std::string all;
  for (const Range& units : row.units) {
    all += text(all.empty() ? "" : ", ", units.begin);
    if (units.size() > 1) all += text("-", units.end - 1);
  }
  return all;
}

}  // namespace

std::vector<StageRow> stage_rows(const PlannedStages& planned) {
  std::vector<StageRow> rows;
  for (std::size_t stage = 0; stage < planned.memory.size(); ++stage) {
    StageRow row{{}, planned.memory[stage].bytes, stage == planned.largest};
    for (const model::Part& part : planned.stages.parts[stage]) row.units.push_back(part.units);
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_stages(const std::vector<StageRow>& rows, char first) {
  std::vector<Cells> lines = {{"stage of pipeline", "units"}};
  for (const Kind kind : kinds) lines.front().emplace_back(name_of(kind));
  lines.front().emplace_back("total");
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    Cells cells = {std::to_string(stage), units_text(rows[stage])};
    for (const Kind kind : kinds) {
      const std::size_t bytes = rows[stage].bytes[kind];
      cells.push_back(bytes == 0 ? "-" : bytes_text(bytes));
    }
    cells.push_back(bytes_text(rows[stage].bytes.total()));
    lines.push_back(cells);
  }
  const std::vector<std::size_t> widths = widths_of(lines);
  for (const Cells& line : lines) print_cells(line, widths, first);
}

}  // namespace shoal::app
