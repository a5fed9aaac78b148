// SPDX-License-Identifier: Apache-2.0
#include "app/plan/plan_time.hpp"

#include <algorithm>
#include <utility>

#include "app/bench/bench_file.hpp"
#include "app/plan/plan_ranks.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"

namespace shoal::app {

plan::Cluster TimeModel::cluster_of(int ranks, int ranks_per_node) const {
  constexpr int most_ranks = 16384;  // each is simulated
  require_input(ranks <= most_ranks, ranks, " ranks: --network predicts steps of up to ", most_ranks, " ranks");
  plan::Cluster cluster;
  const int each = ranks_per_node > 0 ? ranks_per_node : std::min(ranks, machine.network.ranks_per_node);
  require_input(nodes > 0 || ranks <= each || ranks % each == 0, counted(ranks, "rank"),
                " cannot be divided evenly among nodes of ", counted(each, "rank"), ", as in ",
                ranks_per_node > 0 ? "comm.ranks_per_node" : source, "; allowed: numbers in --ranks up to ", each,
                " or multiples of it, or --nodes");
  cluster.nodes = nodes > 0 ? nodes : std::max(1, ranks / each);
  require_input(ranks % cluster.nodes == 0, counted(ranks, "rank"), " cannot be divided evenly among ",
                counted(cluster.nodes, "node"), "; allowed: numbers in --ranks that are multiples of --nodes");
  cluster.ranks_per_node = ranks / cluster.nodes;
  const std::string missing = plan::missing_measurement(machine.network, cluster);
  require_input(missing.empty(), source, " does not describe ", counted(cluster.nodes, "node"), " x ",
                counted(cluster.ranks_per_node, "rank"), ": ", missing);
  return cluster;
}

plan::NetworkModel TimeModel::network(const comm::CommOptions& options) const {
  plan::NetworkModel network = machine.network;
  network.gathers_apart = options.gather_group;
  return network;
}

plan::Arithmetic TimeModel::arithmetic(const zero::EngineOptions& options, int sync_group_size, DType dtype) const {
  if (step_seconds > 0) return {step_seconds, 0};
  // fp16 is not measured. On processors it is storage, whose products are computed in fp32; on GPUs it is as fast as bf16.
  const DType like_f16 = machine.on_gpus ? DType::bf16 : DType::f32;
  const auto found = machine.training.find(name_of(dtype == DType::f16 ? like_f16 : dtype));
  require_input(found != machine.training.end(), source, ": has no speed of training in ", name_of(dtype),
                "; give --step-seconds");
  return plan::arithmetic(options, sync_group_size, found->second);
}

/// --step-seconds are those of the mean stage.
PipelineInputs pipeline_inputs(const PlanInputs& inputs, const config::Options& options, const TimeModel* model) {
  PipelineInputs result{inputs.stages.engine, pipeline_plan(inputs, options), {}};
  if (model == nullptr) return result;
  zero::EngineOptions once = result.engine;
  once.capacity.checkpoint_interval = 0;  // what is computed again is in the plan
  result.arithmetic = model->arithmetic(once, inputs.sync_group_size, options.train.dtype);
  if (model->step_seconds > 0) result.arithmetic.micro_batches_s *= options.pipeline.size;
  return result;
}

plan::PipelineStep pipeline_step(const PlanInputs& inputs, const config::Options& options, const plan::Cluster& cluster,
                                 const plan::NetworkModel& network, const TimeModel* model) {
  const PipelineInputs pipeline = pipeline_inputs(inputs, options, model);
  return plan::pipeline_step(pipeline.engine, pipeline.plan, cluster, network, pipeline.arithmetic);
}

std::vector<config::CommandSpec::Own> time_options() {
  return {{"network", std::string{}, "", config::any().as("a result of `shoal bench comm --output FILE`"),
           "predict step times of every strategy on the machine that was measured"},
          {"nodes", std::uint64_t{0}, "nodes", config::any(),
           "with --network: number of nodes; 0: from comm.ranks_per_node or FILE"},
          {"link-rate", 0.0, "Gbit/s", config::at_least(0),
           "with --network: rate of a node's link in each direction; 0: as measured"},
          {"step-seconds", 0.0, "s", config::at_least(0),
           "with --network: seconds of computation per step and rank, without communication; 0: estimated from FILE"}};
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
        "--nodes, --link-rate and --step-seconds need --network FILE, a result of `shoal bench comm --output FILE`");
    return std::nullopt;
  }
  model.machine = read_bench_file(file, "--network");
  model.source = file;
  const comm::Backend measured = model.machine.network.queued ? comm::Backend::nccl : comm::Backend::mpi;
  const comm::Backend planned = invocation.options.comm.backend;
  require_input(planned == comm::Backend::automatic || planned == measured, "--network ", file, " was measured with ",
                name_of(measured), ", but comm.backend = ", name_of(planned),
                "; measure with that, or plan with comm.backend = auto, which stands for the file's");
  if (rate > 0) {
    model.machine.network = plan::with_link_rate(model.machine.network, rate * 1e9);
    model.source += text(" with links of ", rate, " Gbit/s");
  }
  return model;
}

}  // namespace shoal::app
