// SPDX-License-Identifier: Apache-2.0
// The step times that `shoal plan --network FILE` predicts, for every strategy.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_comm.hpp"
#include "shoal/config/options.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

struct PlanReport;

/// What the command line says about the machine.
struct TimeModel {
  MachineModel machine;
  std::string source;       ///< the file, and a link rate that was given, in words
  int nodes = 0;            ///< --nodes; 0: as comm.ranks_per_node or the file has it
  double step_seconds = 0;  ///< --step-seconds; 0: by the machine's rates of training
  plan::Cluster cluster_of(int ranks, int ranks_per_node) const;
  plan::Arithmetic arithmetic(const zero::EngineOptions& options, int sync_group_size, DType dtype) const;
};

/// The command's own options for it; and what they say. None without --network.
std::vector<config::CommandSpec::Own> time_options();
std::optional<TimeModel> time_model(const config::Invocation& invocation);

/// The deck with one strategy.
struct PredictedRun {
  int ranks = 1;
  plan::Cluster cluster;
  std::string strategy;
  std::map<std::string, std::string> options;  ///< those that make the strategy
  bool asked = false;                          ///< the deck's own
  bool same_trajectory = true;                 ///< as every exact strategy has it
  std::string refused;                         ///< why such a run would not be started; then nothing below is set
  std::size_t memory_bytes = 0;                ///< of rank 0
  std::size_t tokens = 0;                      ///< of a step
  plan::StepTime time;
};
/// Of every strategy that means something on these ranks.
std::vector<PredictedRun> predict(const config::Invocation& deck, int ranks, const TimeModel& model);

void print_times(const PlanReport& report);
nlohmann::ordered_json json_of(const PredictedRun& run);
/// By number of ranks, of the runs that fit.
nlohmann::ordered_json fastest_json(const PlanReport& report);

}  // namespace shoal::app
