// SPDX-License-Identifier: Apache-2.0
#include "app/plan/plan_report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/plan/plan_stages.hpp"
#include "app/support/bytes_json.hpp"
#include "app/support/cells.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/plan/fit.hpp"
#include "shoal/plan/model_states.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

using Json = nlohmann::ordered_json;

bool is_pipeline(const PlanReport& report) {
  return std::any_of(report.runs.begin(), report.runs.end(), [](const PlannedRun& run) { return !run.stages.empty(); });
}

/// Prints, for each number of ranks, the stages of the run that the deck describes, and what to change if they do not fit.
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

std::string count_text(std::size_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fixed(value * 1e-9, 2) + " G";
  if (count >= 1'000'000) return fixed(value * 1e-6, count < 100'000'000 ? 1 : 0) + " M";
  return fixed(value * 1e-3, count < 100'000 ? 1 : 0) + " k";
}

std::string interval_text(std::int64_t interval) {
  return interval == 0 ? "off" : interval < 0 ? "auto" : std::to_string(interval);
}

std::string layers_text(const PlannedRun& run) {
  if (*run.layers == 0) return "none";
  return text(*run.layers >= plan::most_layers ? ">= " : "", *run.layers, " (", count_text(run.parameters_then), ")");
}

/// DeepSpeed's estimate for this run, without offload, which this program does not have.
std::string deepspeed_text(const PlanReport& report, const PlannedRun& run) {
  const auto found = std::find_if(report.deepspeed.begin(), report.deepspeed.end(), [&](const DeepSpeedRow& row) {
    return row.ranks == run.ranks && row.stage == run.stage && !row.how.offload_optimizer;
  });
  return found == report.deepspeed.end() ? "-" : bytes_text(found->estimate.gpu_bytes);
}

/// The tiers, besides the device, in which some run keeps bytes.
std::vector<Where> tiers_of(const PlanReport& report) {
  std::vector<Where> tiers;
  for (const Where where : {Where::cpu, Where::nvme}) {
    const auto uses = [where](const PlannedRun& run) { return run.plan.bytes.in(where) > 0; };
    if (std::any_of(report.runs.begin(), report.runs.end(), uses)) tiers.push_back(where);
  }
  return tiers;
}

Cells head(const PlanReport& report) {
  Cells cells = {"ranks", "stage", "ckpt"};
  for (const Kind kind : kinds) cells.emplace_back(name_of(kind));
  for (const Where where : tiers_of(report)) cells.emplace_back(text("on ", name_of(where)));
  cells.insert(cells.end(), {"total", "states", "DeepSpeed"});
  if (report.limit) cells.push_back("layers that fit");
  return cells;
}

Cells cells_of(const PlanReport& report, const PlannedRun& run) {
  const Ledger& bytes = run.plan.bytes;
  Cells cells = {std::to_string(run.ranks), std::to_string(run.stage) + (run.asked ? "*" : ""),
                 interval_text(run.checkpoint_interval)};
  const auto cell = [](std::size_t count) { return count == 0 ? "-" : bytes_text(count); };
  for (const Kind kind : kinds) cells.push_back(cell(bytes[kind]));
  for (const Where where : tiers_of(report)) cells.push_back(cell(bytes.in(where)));
  cells.push_back(bytes_text(bytes.total()));
  cells.push_back(bytes_text(plan::model_state_bytes(bytes)));
  cells.push_back(deepspeed_text(report, run));
  if (report.limit) cells.push_back(run.layers ? layers_text(run) : "-");
  return cells;
}

void print_legend(const PlanReport& report) {
  std::printf("# %s: %s parameters in %zu layers, %s, gradients in %s, %s\n", report.deck.c_str(),
              count_text(report.parameters).c_str(), report.n_layer, report.dtype.c_str(), report.reduce_dtype.c_str(),
              report.optimizer.c_str());
  std::fputs(
      "# Bytes of rank 0, which keeps the most, without the program itself and its libraries.\n"
      "# *: the deck's own stage and activation.checkpoint_interval (ckpt).\n"
      "# states: parameters + master + gradients + moments. DeepSpeed: its own estimate of these for stages 2 and 3, in\n"
      "# mixed precision and without offload.\n",
      stdout);
  if (is_pipeline(report)) {
    std::fputs("# A pipeline: all bytes are those of rank 0 of the stage that takes most.\n", stdout);
  }
  if (!tiers_of(report).empty()) {
    std::fputs(
        "# on cpu, on nvme: what waits in memory of the host, or on a local disk, while it is not used "
        "(offload.optimizer).\n"
        "# The total is of memory: without what is on nvme.\n",
        stdout);
  }
  if (report.limit) {
    std::printf("# layers that fit: the most layers with which rank 0 takes at most %s (parameters of that model)\n",
                bytes_text(*report.limit).c_str());
  }
  for (const std::string& note : report.notes) std::printf("# %s\n", note.c_str());
}

Json json_of(const PlannedRun& run) {
  Json json = {{"ranks", run.ranks},
               {"stage", run.stage},
               {"checkpoint_interval", run.checkpoint_interval < 0 ? Json("auto") : Json(run.checkpoint_interval)},
               {"asked", run.asked},
               {"batch_micro", run.micro},
               {"batch_global", run.global}};
  if (!run.refused.empty()) {
    json["refused"] = run.refused;
    return json;
  }
  json["state_bytes"] = bytes_by_kind(run.plan.bytes);
  json["total_bytes"] = run.plan.bytes.total();
  json["tiers"] = {{name_of(Where::cpu), run.plan.bytes.in(Where::cpu)},
                   {name_of(Where::nvme), run.plan.bytes.in(Where::nvme)}};
  json["model_state_bytes"] = plan::model_state_bytes(run.plan.bytes);
  if (run.stages.empty()) json["paper_bytes"] = run.paper.total();
  if (!run.stages.empty()) json["pipeline"] = json_of(run.stages);
  if (!run.does_not_fit.empty()) json["does_not_fit"] = run.does_not_fit;
  Json parts = Json::array();
  for (const auto& part : run.plan.parts) {
    parts.push_back({{"kind", name_of(part.kind)}, {"label", part.label}, {"bytes", part.bytes}});
    if (part.where != Where::device) parts.back()["tier"] = name_of(part.where);
  }
  json["parts"] = parts;
  if (run.layers) {
    json["most_layers"] = *run.layers;
    json["most_layers_is_search_limit"] = *run.layers >= plan::most_layers;
    json["most_parameters"] = run.parameters_then;
  }
  return json;
}

Json json_of(const DeepSpeedRow& row) {
  Json json = {{"ranks", row.ranks},
               {"gpus_per_node", row.cluster.gpus_per_node},
               {"nodes", row.cluster.nodes},
               {"stage", row.stage},
               {"offload_optimizer", row.how.offload_optimizer}};
  if (zero::stages.at(static_cast<std::size_t>(row.stage)).shards_parameters) {
    json["offload_param"] = row.how.offload_param;
    json["zero_init"] = row.how.zero_init;
  }
  json["gpu_bytes"] = row.estimate.gpu_bytes;
  json["cpu_bytes"] = row.estimate.cpu_bytes;
  return json;
}

}  // namespace

void print_plan_report(const PlanReport& report) {
  print_legend(report);
  std::vector<Cells> lines = {head(report)};
  for (const PlannedRun& run : report.runs) {
    if (run.refused.empty()) lines.push_back(cells_of(report, run));
  }
  const std::vector<std::size_t> widths = widths_of(lines);
  print_cells(lines.front(), widths, '#');
  std::size_t line = 0;
  for (std::size_t r = 0; r < report.runs.size(); ++r) {
    const PlannedRun& run = report.runs[r];
    if (r > 0 && run.ranks != report.runs[r - 1].ranks) std::printf("\n");
    if (run.refused.empty()) {
      print_cells(lines[++line], widths, ' ');
    } else {
      print_refused(
          text(counted(run.ranks, "rank"), ", stage ", run.stage, ", ckpt ", interval_text(run.checkpoint_interval)),
          run.refused);
    }
  }
  print_stages(report);
  if (!report.time_source.empty()) print_times(report);
}

void print_refused(const std::string& name, const std::string& refused) {
  std::istringstream problems(refused);
  for (std::string problem; std::getline(problems, problem);) {
    std::printf("# %s: refused: %s\n", name.c_str(), problem.c_str());
  }
}

void write_plan_json(const PlanReport& report, const std::filesystem::path& file) {
  Json json = {{"deck", report.deck},
               {"rank", 0},
               {"parameters", report.parameters},
               {"n_layer", report.n_layer},
               {"dtype", report.dtype},
               {"reduce_dtype", report.reduce_dtype},
               {"optimizer", report.optimizer},
               {"memory_bytes", report.limit ? Json(*report.limit) : Json(nullptr)},
               {"notes", report.notes}};
  json["runs"] = Json::array();
  for (const PlannedRun& run : report.runs) json["runs"].push_back(json_of(run));
  if (!report.time_source.empty()) {
    json["strategies"] = Json::array();
    for (const PredictedRun& run : report.predicted) json["strategies"].push_back(json_of(run));
    json["fastest"] = fastest_json(report);
  }
  json["deepspeed"] = Json::array();
  for (const DeepSpeedRow& row : report.deepspeed) json["deepspeed"].push_back(json_of(row));
  io::write_text_file(file, json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace shoal::app
