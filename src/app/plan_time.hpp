// SPDX-License-Identifier: Apache-2.0
// The step times that `shoal plan --network FILE` predicts.
#pragma once

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
  double step_seconds = 0;  ///< --step-seconds; 0: from the machine's matrix products
  plan::Cluster cluster_of(int ranks, int ranks_per_node) const;
  double compute_seconds(const zero::EngineOptions& options, int ranks, const std::string& dtype) const;
};

/// The command's own options for it; and what they say. None without --network.
std::vector<config::CommandSpec::Own> time_options();
std::optional<TimeModel> time_model(const config::Invocation& invocation);

struct PredictedTime {
  plan::Cluster cluster;
  plan::StepTime time;
};

void print_times(const PlanReport& report);
nlohmann::ordered_json json_of(const PredictedTime& predicted);

}  // namespace shoal::app
