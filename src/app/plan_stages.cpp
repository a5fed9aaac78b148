// SPDX-License-Identifier: Apache-2.0
#include "plan_stages.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bytes_json.hpp"
#include "cells.hpp"
#include "plan_ranks.hpp"
#include "plan_report.hpp"
#include "plan_time.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/plan/notation.hpp"
#include "shoal/zero/stages.hpp"

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

/// What the rank that sends most in its stage sends in a step. Borders are not counted.
struct SentInStages {
  double gradients = 0, parameters = 0;
  double total() const { return gradients + parameters; }
};

SentInStages sent_in_stages(PlanInputs inputs, const config::Options& options, int zero_stage) {
  plan::NetworkModel network;  // of which the bytes do not depend
  network.node = network.across = plan::Link{};
  inputs.stages.engine.zero.stage = zero_stage;
  if (zero_stage < options.zero.stage) inputs.stages.engine.gradients.quantized.reset();
  const plan::Cluster one_node{1, inputs.division.ranks * inputs.division.axes.model()};
  SentInStages most;
  for (const plan::Sent& sent : pipeline_step(inputs, options, one_node, network, nullptr).sent) {
    const SentInStages rank{sent[plan::OperationKind::reduce_scatter].total(),
                            sent[plan::OperationKind::all_gather].total()};
    if (rank.total() > most.total()) most = rank;
  }
  return most;
}

}  // namespace

std::string cost_of_turns(const PlanInputs& inputs, const config::Options& options) {
  const zero::Stage& stage = zero::stage_of(options.zero);
  if (options.pipeline.size == 1 || inputs.division.ranks == 1 || !stage.shards_gradients) return {};
  const std::size_t turns = inputs.stages.stages.shape.turns;
  SentInStages own, once;
  try {
    own = sent_in_stages(inputs, options, options.zero.stage);
    once = sent_in_stages(inputs, options, 1);
  } catch (const Error& error) {  // a step of very many turns and ranks is not counted
    if (error.code() != Exit::bad_input) throw;
    return text("zero.stage = ", options.zero.stage, ": what a micro-batch sends is not counted: ", error.what());
  }
  const auto bytes = [](double count) { return plan::bytes_text(static_cast<std::size_t>(count)); };
  const auto of_turn = [&](double count) { return bytes(count / static_cast<double>(turns)); };
  std::string each = of_turn(own.gradients) + " of gradients";
  if (stage.shards_parameters) each += " and " + of_turn(own.parameters) + " of parameters";
  return text("zero.stage = ", options.zero.stage, ": a rank sends up to ", each, " for each of its ", turns,
              " micro-batches; with zero.stage = 1, ", bytes(once.total()), " in a whole step");
}

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
    if (!run.cost_of_turns.empty()) std::printf("# %s\n", run.cost_of_turns.c_str());
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
