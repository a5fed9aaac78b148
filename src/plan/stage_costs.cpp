// SPDX-License-Identifier: Apache-2.0
#include "stage_costs.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/plan/step_messages.hpp"

namespace shoal::plan {

namespace {

void add(Sent& sent, OperationKind kind, const Cost& cost, std::size_t rank, double times) {
  sent[kind].intra += times * static_cast<double>(cost.sent[rank].intra);
  sent[kind].inter += times * static_cast<double>(cost.sent[rank].inter);
}

/// The reductions and gathers of one stage.
class StageCosts {
 public:
  StageCosts(const zero::EngineOptions& options, int stage, const Places& places, const CollectiveCosts& collectives,
             const Cluster& cluster, std::vector<Sent>& sent)
      : options_(options), stage_(stage), places_(places), units_(model::layout(options.model)), sent_(sent) {
    zero::RankGroups group;
    group.ranks = places.data_ranks();
    const std::vector<zero::ShardLayout> layouts = zero::shard_layouts(units_, options.zero, group, options.parts);
    for (const zero::ShardLayout& layout : layouts) {
      result_.optimizer_elements += static_cast<double>(layout.optimizer.size());
    }
    accumulation_ = zero::AccumulationPlan(options.micro_batches, group.ranks,
                                           group.ranks > 1 && zero::stage_of(options.zero).shards_gradients,
                                           options.gradients.collectives == comm::Collectives::native);
    messages_ = step_messages(options, units_, layouts, accumulation_, collectives, cluster);
    result_.in_passes.assign(options.parts.size(), {0, 0});
  }

  Reductions reductions() {
    reduce();
    gather_for_passes();
    result_.exposed_s += all(OperationKind::all_gather, messages_.gather_gradients);
    result_.gather_s = all(OperationKind::all_gather, messages_.gather_parameters);
    result_.small_s = 2 * messages_.small.total_s();
    result_.total_s += result_.small_s;
    return std::move(result_);
  }

 private:
  double turns() const { return static_cast<double>(accumulation_.turns()); }

  /// Counts the operation. Returns its seconds.
  double count(OperationKind kind, const Cost& cost, double times) {
    for (int d = 0; d < places_.data_ranks(); ++d) {
      const auto rank = static_cast<std::size_t>(places_.rank(stage_, d));
      add(sent_[rank], kind, cost, rank, times);
    }
    result_.total_s += times * cost.total_s();
    return times * cost.total_s();
  }
  double all(OperationKind kind, const std::vector<SharedCost>& costs) {
    double seconds = 0;
    for (const SharedCost& cost : costs) seconds += count(kind, *cost, 1);
    return seconds;
  }

  void reduce() {
    for (std::size_t b = 0; b < messages_.reduce.size(); ++b) {
      const Cost& cost = *messages_.reduce[b];
      if (!accumulation_.reduced_every_micro_step) {
        result_.exposed_s += count(OperationKind::reduce_scatter, cost, static_cast<double>(accumulation_.rounds));
        continue;
      }
      const double seconds = count(OperationKind::reduce_scatter, cost, turns());
      result_.in_passes[part_of(messages_.buckets[b].last_unit)].backward += seconds / turns();
      const bool is_last = b + 1 == messages_.reduce.size();
      if (is_last && options_.gradients.overlap) result_.exposed_s += cost.total_s();
    }
  }

  /// The first gather of a unit is over all ranks, with hpZ the others over a few.
  void gather_for_passes() {
    if (messages_.gathers.gather_lifetimes.empty()) return;
    const zero::StepUses uses = zero::uses_of_step(options_.model, options_.capacity, options_.parts, options_.order);
    std::vector<bool> gathered(units_.size(), false);
    for (const zero::GatherLifetime& lifetime : messages_.gathers.gather_lifetimes) {
      const auto unit = static_cast<std::size_t>(lifetime.unit);
      const bool within_hpz = gathered[unit] && messages_.gather_hpz[unit] != nullptr;
      gathered[unit] = true;
      const SharedCost& cost = within_hpz ? messages_.gather_hpz[unit] : messages_.gather[unit];
      const auto next = std::upper_bound(uses.begin.begin(), uses.begin.end(), lifetime.first);
      const zero::PassOfPart& pass = options_.order[static_cast<std::size_t>(next - uses.begin.begin()) - 1];
      pipeline::PassTimes& part = result_.in_passes[pass.part];
      (pass.backward ? part.backward : part.forward) += count(OperationKind::all_gather, *cost, 1) / turns();
    }
  }

  std::size_t part_of(int unit) const {
    const auto has = [&](const model::Part& part) { return model::has_unit({part}, static_cast<std::size_t>(unit)); };
    return static_cast<std::size_t>(std::find_if(options_.parts.begin(), options_.parts.end(), has) -
                                    options_.parts.begin());
  }

  const zero::EngineOptions& options_;
  int stage_;
  const Places& places_;
  std::vector<model::UnitLayout> units_;
  std::vector<Sent>& sent_;
  zero::AccumulationPlan accumulation_;
  StepMessages messages_;
  Reductions result_;
};

}  // namespace

Places::Places(const PipelinePlan& plan, const Cluster& cluster)
    : of_stage_(cluster.ranks() / plan.shape.stages), on_node_(cluster.ranks_per_node) {
  require(cluster.ranks() % plan.shape.stages == 0, plan.shape.stages, " stages on ", cluster.ranks(), " ranks");
}

double Places::seconds(int from, int to, std::size_t bytes, const NetworkModel& network) const {
  double within = 0, across = 0;
  std::map<int, double> of_node;
  for (int d = 0; d < of_stage_; ++d) {
    if (!crosses(from, to, d)) {
      within = network.node->latency_s + static_cast<double>(bytes) * network.node->s_per_byte;
      continue;
    }
    double& sent = of_node[node(rank(from, d))] += static_cast<double>(bytes);
    across = std::max(across, network.across->latency_s + sent * network.across->s_per_byte / network.ranks_per_node);
  }
  return std::max(within, across);
}

Reductions reductions_of(const zero::EngineOptions& options, int stage, const Places& places,
                         const CollectiveCosts& collectives, const Cluster& cluster, std::vector<Sent>& sent) {
  return StageCosts(options, stage, places, collectives, cluster, sent).reductions();
}

}  // namespace shoal::plan
