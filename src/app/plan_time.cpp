// SPDX-License-Identifier: Apache-2.0
#include "plan_time.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_file.hpp"
#include "plan_report.hpp"
#include "report.hpp"
#include "shoal/base/error.hpp"
#include "shoal/plan/notation.hpp"

namespace shoal::app {

plan::Cluster TimeModel::cluster_of(int ranks, int ranks_per_node) const {
  plan::Cluster cluster;
  const int each = ranks_per_node > 0 ? ranks_per_node : std::min(ranks, machine.network.ranks_per_node);
  cluster.nodes = nodes > 0 ? nodes : std::max(1, ranks / each);
  require_input(ranks % cluster.nodes == 0, ranks, " ranks cannot be shared out evenly among ", cluster.nodes,
                " nodes; allowed: --nodes and --ranks of which each of these is a multiple");
  cluster.ranks_per_node = ranks / cluster.nodes;
  const std::string lacking = plan::lacking(machine.network, cluster);
  require_input(lacking.empty(), source, " cannot tell what ", cluster.nodes, " nodes x ", cluster.ranks_per_node,
                " ranks need: ", lacking);
  return cluster;
}

double TimeModel::compute_seconds(const zero::EngineOptions& options, int ranks, const std::string& dtype) const {
  if (step_seconds > 0) return step_seconds;
  const auto found = machine.gflops.find(dtype == "bf16" ? "bf16" : "fp32");  // fp16 is storage: products in fp32
  require_input(found != machine.gflops.end(), source, ": no matrix products in ", dtype, "; give --step-seconds");
  return plan::compute_seconds(options, ranks, found->second);
}

std::vector<config::CommandSpec::Own> time_options() {
  return {{"network", std::string{}, "", config::any().as("a result of `shoal bench comm --output FILE`"),
           "predicts the time of a step on the machine that was measured"},
          {"nodes", std::uint64_t{0}, "nodes", config::any(),
           "with --network: how many the ranks are on; 0: as comm.ranks_per_node or the file has it"},
          {"link-rate", 0.0, "Gbit/s", config::at_least(0),
           "with --network: of a node's link in each direction; 0: as measured"},
          {"step-seconds", 0.0, "s", config::at_least(0),
           "with --network: of a step's arithmetic on a rank; 0: by the rate of matrix products in FILE"}};
}

std::optional<TimeModel> time_model(const config::Invocation& invocation) {
  const auto& file = invocation.own<std::string>("network");
  const double rate = invocation.own<double>("link-rate");
  TimeModel model;
  model.nodes = static_cast<int>(invocation.own<std::uint64_t>("nodes"));
  model.step_seconds = invocation.own<double>("step-seconds");
  if (file.empty()) {
    require_input(
        rate == 0 && model.nodes == 0 && model.step_seconds == 0,
        "--nodes, --link-rate and --step-seconds go with --network FILE, which `shoal bench comm --output FILE` makes");
    return std::nullopt;
  }
  model.machine = read_bench_file(file, "--network");
  model.source = file;
  if (rate > 0) {
    model.machine.network = plan::with_link_rate(model.machine.network, rate * 1e9);
    model.source += text(" with links of ", rate, " Gbit/s");
  }
  return model;
}

void print_times(const PlanReport& report) {
  std::printf("\n# Seconds of a step, by %s; arithmetic: %s.\n", report.time_source.c_str(), report.arithmetic.c_str());
  std::printf(
      "# sent: a step, by the rank that sends most, within its node and across nodes. exposed: communication that "
      "arithmetic cannot hide.\n");
  std::printf(
      "#ranks  nodes  stage  ckpt  sent within  sent across  communication s  exposed s  arithmetic s     step s  "
      "tokens/s\n");
  const PlannedRun* fastest = nullptr;
  for (std::size_t r = 0; r < report.runs.size(); ++r) {
    const PlannedRun& run = report.runs[r];
    if (run.time) {
      const auto& [cluster, time] = *run.time;
      const std::string stage = std::to_string(run.stage) + (run.asked ? "*" : "");
      std::printf("%7d  %5d  %5s  %4s  %11s  %11s  %15.4f  %9.4f  %12.4f  %9.4f  %8.0f\n", run.ranks, cluster.nodes,
                  stage.c_str(), interval_text(run.checkpoint_interval).c_str(),
                  plan::bytes_text(time.sent.total().intra).c_str(), plan::bytes_text(time.sent.total().inter).c_str(),
                  time.communication_s, time.exposed_s, time.compute_s, time.total_s(),
                  static_cast<double>(run.global * report.block_size) / time.total_s());
      if (fastest == nullptr || time.total_s() < fastest->time->time.total_s()) fastest = &run;
    }
    const bool last = r + 1 == report.runs.size() || report.runs[r + 1].ranks != run.ranks;
    if (last && fastest != nullptr) {
      std::printf("# fastest on %d ranks: stage %d, ckpt %s\n", run.ranks, fastest->stage,
                  interval_text(fastest->checkpoint_interval).c_str());
      fastest = nullptr;
    }
  }
}

nlohmann::ordered_json json_of(const PredictedTime& predicted) {
  const auto& [cluster, time] = predicted;
  return {{"nodes", cluster.nodes},
          {"compute_s", time.compute_s},
          {"communication_s", time.communication_s},
          {"exposed_s", time.exposed_s},
          {"step_s", time.total_s()},
          {"sent",
           {{"reduce_scatter", {{"intra", time.sent.reduced.intra}, {"inter", time.sent.reduced.inter}}},
            {"all_gather", {{"intra", time.sent.gathered.intra}, {"inter", time.sent.gathered.inter}}}}}};
}

}  // namespace shoal::app
