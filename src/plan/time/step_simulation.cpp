// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_simulation.hpp"

#include <numeric>

#include "shoal/base/error.hpp"

namespace shoal::plan {

namespace {

using Pass = zero::StepItem::Pass;

}  // namespace

StepSimulation::StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                               const Cluster& cluster, const Arithmetic& arithmetic, RankClock& clock)
    : time_(&clock),
      schedule_(options, sync_group_size),
      execution_(step_messages(options, schedule_, collectives, cluster)),
      update_s_(arithmetic.update_s) {
  require(schedule_.parts() == 1, "the simulation of a step in ", schedule_.parts(), " parts");
  check_effort(schedule_.accumulation(), schedule_.uses(0, Pass::forward).size() + schedule_.uses(0, Pass::backward).size(),
               cluster.ranks());
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  double sum = 0;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    std::vector<double>& uses = use_s_[static_cast<std::size_t>(pass)] = use_flops(
        schedule_.uses(0, pass), schedule_.uses(0, Pass::backward), pass, costs, options.capacity.checkpoint_interval);
    sum += std::accumulate(uses.begin(), uses.end(), 0.0);
  }
  const double of_micro_batch = arithmetic.micro_batches_s / static_cast<double>(schedule_.accumulation().turns());
  for (std::vector<double>& uses : use_s_) {
    for (double& seconds : uses) seconds *= of_micro_batch / sum;
  }
}

void StepSimulation::step() {
  for (std::size_t turn = 0; turn < schedule_.accumulation().turns(); ++turn) {
    execute(schedule_.forward(0));
    execute(schedule_.backward(0, true));
  }
  execute(schedule_.end_of_step());
}

}  // namespace shoal::plan
