// SPDX-License-Identifier: Apache-2.0
#include "pipeline_stage.hpp"

#include "shoal/model/costs.hpp"

namespace shoal::plan {

StageReductions stage_reductions(const zero::EngineOptions& options, const PipelinePlan& plan, std::size_t stage,
                                 int data_ranks, const CollectiveCosts& collectives, const Cluster& cluster) {
  zero::EngineOptions of_stage = options;
  of_stage.parts = plan.parts[stage];
  if (!plan.orders.empty()) of_stage.order = plan.orders[stage];
  zero::RankGroups group;
  group.ranks = data_ranks;
  StageReductions result;
  result.units = model::layout(options.model);
  const auto layouts = zero::shard_layouts(result.units, options.zero, group, of_stage.parts);
  for (const zero::ShardLayout& layout : layouts) result.optimizer_elements += static_cast<double>(layout.optimizer.size());
  result.accumulation = zero::AccumulationPlan(options.micro_batches, group.ranks,
                                               group.ranks > 1 && zero::stage_of(options.zero).shards_gradients,
                                               options.gradients.collectives == comm::Collectives::native);
  result.messages = step_messages(of_stage, result.units, layouts, result.accumulation, collectives, cluster);
  result.options = std::move(of_stage);
  return result;
}

std::vector<pipeline::PassTimes> unit_times(const zero::EngineOptions& options, const PipelinePlan& plan, double whole_s) {
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  double all = 0;
  for (const model::UnitCost& cost : costs) all += cost.flops();
  const double s_per_flop = whole_s / all;
  std::vector<pipeline::PassTimes> times;
  for (std::size_t u = 0; u < costs.size(); ++u) {
    pipeline::PassTimes& unit = times.emplace_back();
    unit.forward = s_per_flop * costs[u].forward_flops;
    unit.backward = s_per_flop * costs[u].backward_flops;
    if (u <= options.model.n_layer) {
      unit.backward += s_per_flop * plan.recomputed * costs[u].forward_flops;
    } else {  // the head's backward pass follows its forward pass at once, and nothing of it is computed again
      unit.forward += unit.backward;
      unit.backward = 0;
    }
  }
  return times;
}

std::vector<CopyBytes> copies_of(const zero::EngineOptions& options, int data_ranks) {
  const bool in_part = data_ranks > 1 && zero::stage_of(options.zero).shards_optimizer;
  std::vector<CopyBytes> copies;
  for (const model::UnitLayout& unit : model::layout(options.model)) {
    if (!unit.copy_of) continue;
    CopyBytes& copy = copies.emplace_back();
    for (int d = 0; d < data_ranks; ++d) {
      const std::size_t shard = zero::shard_of(unit.elements, d, data_ranks).size();
      copy.gradient.push_back(shard * size_of(options.gradients.dtype));
      copy.parameters.push_back((in_part ? shard : unit.elements) * size_of(options.dtype));
    }
  }
  return copies;
}

}  // namespace shoal::plan
