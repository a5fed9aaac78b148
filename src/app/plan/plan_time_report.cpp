// SPDX-License-Identifier: Apache-2.0
// Step times in the results of `shoal plan`, as a table and as JSON.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "app/plan/plan_report.hpp"
#include "app/plan/plan_time.hpp"
#include "app/support/text_table.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"

namespace shoal::app {

namespace {

using Json = nlohmann::ordered_json;

bool fits(const PlanReport& report, const PredictedRun& run) {
  return run.refused.empty() && (!report.limit || run.memory_bytes <= *report.limit);
}

/// Rows may have different batches, where one cannot be divided for all of them.
double seconds_per_token(const PredictedRun& run) { return run.time.total_s() / static_cast<double>(run.tokens); }

/// The fastest run that fits; null if none does.
const PredictedRun* fastest(const PlanReport& report, int ranks, bool exact_only) {
  const PredictedRun* best = nullptr;
  for (const PredictedRun& run : report.predicted) {
    if (run.ranks != ranks || !fits(report, run) || (exact_only && !run.same_trajectory)) continue;
    if (best == nullptr || seconds_per_token(run) < seconds_per_token(*best)) best = &run;
  }
  return best;
}

std::string traffic_text(double bytes) { return bytes_text(static_cast<std::size_t>(bytes)); }

void print_row(const PlanReport& report, const PredictedRun& run) {
  const std::string name = run.strategy + (run.asked ? "*" : "") + (run.same_trajectory ? "" : "~");
  if (!run.refused.empty()) {
    print_refused(name, run.refused);
    return;
  }
  const plan::StepTime& time = run.time;
  const plan::Bytes sent = time.sent.total();
  std::printf("%6d  %5d  %-13s  %10s  %11s  %11s  %11s  %9.4f  %9.4f  %12.4f  %9.4f  %8.0f%s\n", run.ranks,
              run.cluster.nodes, name.c_str(), bytes_text(run.memory_bytes).c_str(), traffic_text(sent.intra).c_str(),
              traffic_text(sent.inter).c_str(), traffic_text(time.across_per_node).c_str(), time.communication_s,
              time.exposed_s, time.compute_s, time.total_s(), static_cast<double>(run.tokens) / time.total_s(),
              fits(report, run) ? "" : "  does not fit");
}

bool has_pipelines(const PlanReport& report) {
  return std::any_of(report.predicted.begin(), report.predicted.end(),
                     [](const auto& run) { return run.pipeline.has_value(); });
}

/// A line for each number of stages.
void print_pipelines(const PlanReport& report, int ranks) {
  int printed = 1;
  for (const PredictedRun& run : report.predicted) {
    if (run.ranks != ranks || !run.pipeline || run.stages == printed) continue;
    printed = run.stages;
    std::printf("# P=%d: idle %s %% of a step's passes (ideal: %s %%); batch.global = %zu would halve the ideal share\n",
                run.stages, fixed(100 * run.pipeline->idle_share, 1).c_str(),
                fixed(100 * run.pipeline->ideal_idle_share, 1).c_str(), run.half_idle_batch);
  }
}

/// A line if the steps of a number of ranks are not of the same size, so that their seconds say little.
void print_batches(const PlanReport& report, int ranks) {
  std::set<std::size_t> tokens;
  for (const PredictedRun& run : report.predicted) {
    if (run.ranks == ranks && run.refused.empty()) tokens.insert(run.tokens);
  }
  if (tokens.size() < 2) return;
  std::printf(
      "# steps on %s have %zu to %zu tokens, as batch.global cannot be divided for all strategies: compare tokens/s\n",
      counted(ranks, "rank").c_str(), *tokens.begin(), *tokens.rbegin());
}

void print_fastest(const PlanReport& report, int ranks) {
  const PredictedRun* const any = fastest(report, ranks, false);
  const PredictedRun* const exact = fastest(report, ranks, true);
  if (any == nullptr) return;
  std::string line = text("# fastest on ", counted(ranks, "rank"), ": ", any->strategy);
  if (!any->same_trajectory) line += " (other losses)";
  if (!any->same_trajectory && exact != nullptr) {
    line += text("; fastest with exact results: ", exact->strategy, ", which takes ",
                 fixed(seconds_per_token(*exact) / seconds_per_token(*any), 2), " times as long");
  }
  std::printf("%s\n", line.c_str());
}

}  // namespace

void print_times(const PlanReport& report) {
  std::printf("\n# Predicted steps. Network: %s. Arithmetic: %s.\n", report.time_source.c_str(), report.arithmetic.c_str());
  std::fputs(
      "# Bytes and seconds are means over steps. sent within, across: by the rank that sends most, within its node and\n"
      "# to other nodes; per node: by all ranks of a node to other nodes. comm: all communication and quantization;\n"
      "# exposed: the part that arithmetic does not hide. *: the deck's own strategy.\n"
      "# ~: other losses than the rows without ~ (rounded messages, or nodes that synchronize less often).\n",
      stdout);
  if (has_pipelines(report)) {
    std::fputs(
        "# P=2: pipelines of 2 stages. Bytes in memory and arithmetic are those of the stage that has most of them;\n"
        "# exposed: waiting for other stages, too.\n",
        stdout);
  }
  std::fputs(
      "#ranks  nodes  strategy        memory/rank  sent within  sent across     per node     comm s  "
      "exposed s  arithmetic s     step s  tokens/s\n",
      stdout);
  for (std::size_t r = 0; r < report.predicted.size(); ++r) {
    const int ranks = report.predicted[r].ranks;
    print_row(report, report.predicted[r]);
    if (r + 1 == report.predicted.size() || report.predicted[r + 1].ranks != ranks) {
      print_pipelines(report, ranks);
      print_batches(report, ranks);
      print_fastest(report, ranks);
    }
  }
}

Json json_of(const PredictedRun& run) {
  Json json = {{"ranks", run.ranks}, {"nodes", run.cluster.nodes}, {"strategy", run.strategy},
               {"asked", run.asked}, {"options", run.options},     {"same_trajectory", run.same_trajectory}};
  if (!run.refused.empty()) {
    json["refused"] = run.refused;
    return json;
  }
  const auto bytes = [&](plan::OperationKind operation) {
    const plan::Bytes& sent = run.time.sent[operation];
    return Json{{"intra", sent.intra}, {"inter", sent.inter}};
  };
  json["memory_bytes"] = run.memory_bytes;
  json["tokens_per_step"] = run.tokens;
  json["step_time"] = {{"compute_s", run.time.compute_s},
                       {"communication_s", run.time.communication_s},
                       {"exposed_s", run.time.exposed_s},
                       {"step_s", run.time.total_s()},
                       {"sent",
                        {{"reduce_scatter", bytes(plan::OperationKind::reduce_scatter)},
                         {"all_gather", bytes(plan::OperationKind::all_gather)},
                         {"send", bytes(plan::OperationKind::send)}}},
                       {"across_bytes_per_node", run.time.across_per_node}};
  if (!run.pipeline) return json;
  Json stages = Json::array();
  const std::size_t of_stage = run.pipeline->sent.size() / static_cast<std::size_t>(run.stages);
  for (std::size_t rank = 0; rank < run.pipeline->sent.size(); rank += of_stage) {
    const plan::Sent& sent = run.pipeline->sent[rank];
    const plan::Bytes borders = sent[plan::OperationKind::send], all = sent.total();
    stages.push_back({{"borders", {{"intra", borders.intra}, {"inter", borders.inter}}},
                      {"reductions", {{"intra", all.intra - borders.intra}, {"inter", all.inter - borders.inter}}}});
  }
  json["pipeline"] = {{"size", run.stages},
                      {"idle_share", run.pipeline->idle_share},
                      {"ideal_idle_share", run.pipeline->ideal_idle_share},
                      {"half_idle_batch_global", run.half_idle_batch},
                      {"sent_by_stage", stages}};
  return json;
}

Json fastest_json(const PlanReport& report) {
  Json json = Json::array();
  for (std::size_t r = 0; r < report.predicted.size(); ++r) {
    const int ranks = report.predicted[r].ranks;
    if (r > 0 && report.predicted[r - 1].ranks == ranks) continue;
    const PredictedRun* const best = fastest(report, ranks, false);
    if (best != nullptr) json.push_back({{"ranks", ranks}, {"strategy", best->strategy}});
  }
  return json;
}

}  // namespace shoal::app
