// SPDX-License-Identifier: Apache-2.0
#include "plan_stages.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bytes_json.hpp"
#include "cells.hpp"
#include "plan_report.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/plan/notation.hpp"

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
      cells.push_back(bytes == 0 ? "-" : plan::bytes_text(bytes));
    }
    cells.push_back(plan::bytes_text(rows[stage].bytes.total()));
    lines.push_back(cells);
  }
  const std::vector<std::size_t> widths = widths_of(lines);
  for (const Cells& line : lines) print_cells(line, widths, first);
}

bool is_pipeline(const PlanReport& report) {
  return std::any_of(report.runs.begin(), report.runs.end(), [](const PlannedRun& run) { return !run.stages.empty(); });
}

void print_stages(const PlanReport& report) {
  for (const PlannedRun& run : report.runs) {
    if (!run.asked || run.stages.empty()) continue;
    const std::size_t head = report.n_layer + 1, last = run.stages.back().units.back().end - 1;
    std::printf("\n# The stages on %s: units 0 (embedding), 1 ... %zu (layers), %zu (head)%s\n",
                counted(run.ranks, "rank").c_str(), report.n_layer, head,
                last == head ? "" : text(", ", last, " (its copy of the embedding)").c_str());
    print_stages(run.stages, '#');
    if (!run.does_not_fit.empty()) std::printf("# %s\n", run.does_not_fit.c_str());
  }
}

nlohmann::ordered_json json_of(const std::vector<StageRow>& rows) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const StageRow& row : rows) {
    nlohmann::ordered_json units = nlohmann::ordered_json::array();
    for (const Range& part : row.units) units.push_back({part.begin, part.end});
    stages.push_back({{"units", units},
                      {"largest", row.largest},
                      {"state_bytes", bytes_by_kind(row.bytes)},
                      {"total_bytes", row.bytes.total()}});
  }
  return stages;
}

}  // namespace shoal::app
