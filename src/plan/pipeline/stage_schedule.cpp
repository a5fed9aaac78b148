// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/stage_schedule.hpp"

#include "shoal/base/error.hpp"

namespace shoal::plan {

namespace {

using Pass = zero::StepItem::Pass;

zero::EngineOptions of_stage(zero::EngineOptions options, const PipelinePlan& plan, std::size_t stage) {
  options.parts = plan.parts[stage];
  options.order = plan.orders.at(stage);
  return options;
}

int data_ranks(const PipelinePlan& plan, const Cluster& cluster) { return cluster.ranks() / plan.shape.stages; }

}  // namespace

StageSchedule::StageSchedule(const zero::EngineOptions& options, const PipelinePlan& plan, std::size_t stage,
                             const Cluster& cluster, const CollectiveCosts& collectives, const Arithmetic& arithmetic)
    : order_(plan.orders.at(stage)),
      schedule_(of_stage(options, plan, stage), data_ranks(plan, cluster)),
      messages_(step_messages(options, schedule_, collectives, cluster)) {
  require(order_.size() == plan.lists[stage].size(), "a list of ", plan.lists[stage].size(), " actions, and an order of ",
          order_.size(), " passes");
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  double all = 0;
  for (const model::UnitCost& cost : costs) all += cost.flops();
  const double s_per_flop = arithmetic.micro_batches_s / static_cast<double>(plan.shape.turns) / all;
  std::size_t uses = 0;
  for (std::size_t part = 0; part < schedule_.parts(); ++part) {
    UseSeconds& seconds = use_s_.emplace_back();
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::recomputing_backward}) {
      std::vector<double>& of_pass = seconds[static_cast<std::size_t>(pass)] =
          use_flops(schedule_.uses(part, pass), schedule_.uses(part, Pass::backward), pass, costs,
                    options.capacity.checkpoint_interval);
      for (double& use : of_pass) use *= s_per_flop;
      uses += of_pass.size();
    }
  }
  check_effort(schedule_.accumulation(), uses, cluster.ranks());
}

double StageSchedule::optimizer_elements() const {
  double elements = 0;
  for (const zero::ShardLayout& layout : schedule_.layouts()) elements += static_cast<double>(layout.optimizer.size());
  return elements;
}

std::vector<StageSchedule> stage_schedules(const zero::EngineOptions& options, const PipelinePlan& plan,
                                           const Cluster& cluster, const CollectiveCosts& collectives,
                                           const Arithmetic& arithmetic) {
  std::vector<StageSchedule> stages;
  for (std::size_t stage = 0; stage < plan.parts.size(); ++stage) {
    stages.emplace_back(options, plan, stage, cluster, collectives, arithmetic);
  }
  return stages;
}

std::vector<double> update_seconds(const std::vector<StageSchedule>& stages, const Arithmetic& arithmetic) {
  double all = 0;
  for (const StageSchedule& stage : stages) all += stage.optimizer_elements();
  std::vector<double> seconds;
  seconds.reserve(stages.size());
  for (const StageSchedule& stage : stages) seconds.push_back(arithmetic.update_s * stage.optimizer_elements() / all);
  return seconds;
}

}  // namespace shoal::plan
