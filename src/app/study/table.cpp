// SPDX-License-Identifier: Apache-2.0
#include "app/study/table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "app/support/statistics.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"

namespace shoal::app {

namespace {

/// How many runs are in each state.
using States = std::array<int, point_state_names.size()>;

/// "3 done, 1 failed".
std::string states_text(const States& counts) {
  std::string line;
  for (const auto& state : point_state_names) {
    const int count = counts.at(static_cast<std::size_t>(state.value));
    if (count > 0) line += text(line.empty() ? "" : ", ", count, " ", state.name);
  }
  return line;
}

/// The repeats of one point of a curve.
struct Row {
  const StudyPoint* point = nullptr;
  Scaling scaling = Scaling::strong;
  std::vector<double> step_s, node_seconds;
  std::size_t memory = 0;
  States states{};

  /// Tokens/s of all ranks, by the step time that the table shows; at least one repeat must be measured. With an even number
  /// of repeats, the median of their rates would be another number.
  double tokens_per_s() const { return static_cast<double>(point->tokens()) / median(step_s); }
};

std::vector<Row> rows_of(const StudyResults& results) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < results.points().size(); ++i) {
    const StudyPoint& point = results.points()[i];
    const PointRecord& record = results.record(i);
    for (const Scaling scaling : point.scalings) {
      const auto same = [&](const Row& row) {
        return row.point->strategy == point.strategy && row.scaling == scaling && row.point->grid == point.grid;
      };
      auto row = std::find_if(rows.begin(), rows.end(), same);
      if (row == rows.end()) row = rows.insert(rows.end(), Row{&point, scaling, {}, {}, 0, {}});
      ++row->states.at(static_cast<std::size_t>(record.state));
      if (record.measured) {
        row->step_s.push_back(record.measured->step_s);
        row->node_seconds.push_back(record.measured->node_seconds_per_token);
        row->memory = std::max(row->memory, record.measured->memory_bytes);
      }
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.point->strategy == b.point->strategy && a.scaling < b.scaling;
  });
  return rows;
}

/// Tokens/s per rank of the smallest run of the row's curve: fewest ranks, then fewest nodes. 0 if that is not measured.
double reference(const std::vector<Row>& rows, const Row& of) {
  const auto size = [](const Row& row) { return std::pair(row.point->grid.ranks(), row.point->grid.nodes); };
  const Row* fewest = &of;
  for (const Row& row : rows) {
    const bool same_curve = row.point->strategy == of.point->strategy && row.scaling == of.scaling;
    if (same_curve && size(row) < size(*fewest)) fewest = &row;
  }
  return fewest->step_s.empty() ? 0 : fewest->tokens_per_s() / fewest->point->grid.ranks();
}

}  // namespace

std::string study_progress(const StudyResults& results) {
  States counts{};
  for (std::size_t i = 0; i < results.points().size(); ++i) ++counts.at(static_cast<std::size_t>(results.record(i).state));
  return states_text(counts);
}

void print_study(const StudyResults& results) {
  const std::vector<Row> rows = rows_of(results);
  std::size_t width = 8;
  for (const Row& row : rows) width = std::max(width, row.point->strategy.size());
  std::printf(
      "# step s: mean of settled steps (without the first; whole periods where nodes train locally), median over repeats.\n"
      "# memory: of a rank, as planned and taken. efficiency: tokens/s per rank, as a share of that on the fewest ranks.\n"
      "# node s/Mtoken: seconds of a node per million tokens. (predicted): by the plan.\n"
      "#%-*s  scaling  nodes x ranks  micro  batch  memory/rank    step s  (predicted)  tokens/s  efficiency  node "
      "s/Mtoken\n",
      static_cast<int>(width), "strategy");
  for (const Row& row : rows) {
    const StudyPoint& point = *row.point;
    const std::string grid = text(point.grid.nodes, " x ", point.grid.ranks_per_node);
    const std::string predicted = point.timed ? fixed(point.step.total_s(), 4) : "-";
    std::printf(" %-*s  %-7s  %13s  %5zu  %5zu  %11s", static_cast<int>(width), point.strategy.c_str(), name_of(row.scaling),
                grid.c_str(), point.options.batch.micro, point.options.batch.global,
                bytes_text(row.memory == 0 ? point.planned.total() : row.memory).c_str());
    if (row.step_s.empty()) {
      std::printf("  %8s  %11s  %s\n", "-", predicted.c_str(), states_text(row.states).c_str());
      continue;
    }
    const bool all_done =
        row.step_s.size() == static_cast<std::size_t>(std::accumulate(row.states.begin(), row.states.end(), 0));
    const double rate = row.tokens_per_s(), first = reference(rows, row);
    const std::string efficiency = first == 0 ? "-" : fixed(rate / point.grid.ranks() / first, 3);
    std::printf("  %8.4f  %11s  %8.0f  %10s  %13.2f%s\n", median(row.step_s), predicted.c_str(), rate, efficiency.c_str(),
                median(row.node_seconds) * 1e6, all_done ? "" : ("  " + states_text(row.states)).c_str());
  }
  std::fflush(stdout);
}

}  // namespace shoal::app
