// SPDX-License-Identifier: Apache-2.0
// Step times of every strategy, as `shoal plan --network FILE` predicts them.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/bench/machine_model.hpp"
#include "shoal/config/options.hpp"
#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::app {

struct PlanInputs;
struct PlanReport;

/// The machine that the command line describes.
struct TimeModel {
  MachineModel machine;
  std::string source;       ///< the file, and the link rate if one was given, for messages
  int nodes = 0;            ///< --nodes; 0: from comm.ranks_per_node or the file
  double step_seconds = 0;  ///< --step-seconds; 0: from the machine's training rates
  plan::Cluster cluster_of(int ranks, int ranks_per_node) const;
  /// As a run with these options uses it.
  plan::NetworkModel network(const comm::CommOptions& options) const;
  plan::Arithmetic arithmetic(const zero::EngineOptions& options, int sync_group_size, DType dtype) const;
};

/// The command's own options for it, and the machine that they describe; nothing without --network.
std::vector<config::CommandSpec::Own> time_options();
std::optional<TimeModel> time_model(const config::Invocation& invocation);

/// The deck with one strategy in place of its own.
struct PredictedRun {
  int ranks = 1;
  plan::Cluster cluster;
  std::string strategy;
  std::map<std::string, std::string> options;  ///< the options that define the strategy
  bool asked = false;                          ///< it is the deck's own strategy
  bool same_trajectory = true;                 ///< its losses are those of all exact strategies
  std::string refused;                         ///< why such a run would be refused; then nothing below is set
  std::size_t memory_bytes = 0;                ///< of rank 0, or of the stage that takes most
  std::size_t tokens = 0;                      ///< of a step
  plan::StepTime time;
  int stages = 1;                              ///< of pipelines
  std::optional<plan::PipelineStep> pipeline;  ///< of a run with pipelines; time is that of `pipeline`
  std::size_t half_idle_batch = 0;             ///< with pipelines: the batch.global that halves the ideal idle share
};
/// The arguments of plan::pipeline_step(), and of plan::record() for pipelines. Without a model nothing takes time.
struct PipelineInputs {
  zero::EngineOptions engine;
  plan::PipelinePlan plan;
  plan::Arithmetic arithmetic;
};
PipelineInputs pipeline_inputs(const PlanInputs& inputs, const config::Options& options, const TimeModel* model);
/// The step of a run with pipelines.
plan::PipelineStep pipeline_step(const PlanInputs& inputs, const config::Options& options, const plan::Cluster& cluster,
                                 const plan::NetworkModel& network, const TimeModel* model);
/// Predictions for every strategy that makes a difference on these ranks. limit: bytes that a rank may take, if there is
/// one.
std::vector<PredictedRun> predict(const config::Invocation& deck, int ranks, const TimeModel& model,
                                  const std::optional<std::size_t>& limit);

void print_times(const PlanReport& report);
nlohmann::ordered_json json_of(const PredictedRun& run);
/// The fastest strategy by number of ranks, among the runs that fit.
nlohmann::ordered_json fastest_json(const PlanReport& report);

}  // namespace shoal::app
