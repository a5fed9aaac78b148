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
  StageCosts(const StageReductions& stage, int number, const Places& places, std::vector<Sent>& sent)
      : stage_(stage), number_(number), places_(places), sent_(sent) {
    result_.in_passes.assign(stage.options.parts.size(), {0, 0});
  }

  Reductions reductions() {
    reduce();
    gather_for_passes();
    result_.exposed_s += all(OperationKind::all_gather, stage_.messages.gather_gradients);
    result_.gather_s = all(OperationKind::all_gather, stage_.messages.gather_parameters);
    result_.small_s = 2 * stage_.messages.small.total_s();
    result_.total_s += result_.small_s;
    return std::move(result_);
  }

 private:
  double turns() const { return static_cast<double>(stage_.accumulation.turns()); }

  /// Counts the operation. Returns its seconds.
  double count(OperationKind kind, const Cost& cost, double times) {
    for (int d = 0; d < places_.data_ranks(); ++d) {
      const auto rank = static_cast<std::size_t>(places_.rank(number_, d));
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
    for (std::size_t b = 0; b < stage_.messages.reduce.size(); ++b) {
      const Cost& cost = *stage_.messages.reduce[b];
      if (!stage_.accumulation.reduced_every_micro_step) {
        result_.exposed_s += count(OperationKind::reduce_scatter, cost, static_cast<double>(stage_.accumulation.rounds));
        continue;
      }
      const double seconds = count(OperationKind::reduce_scatter, cost, turns());
      result_.in_passes[part_of(stage_.messages.buckets[b].last_unit)].backward += seconds / turns();
      const bool is_last = b + 1 == stage_.messages.reduce.size();
      if (is_last && stage_.options.gradients.overlap) result_.exposed_s += cost.total_s();
    }
  }

  /// The first gather of a unit is over all ranks, with hpZ the others over a few.
  void gather_for_passes() {
    if (stage_.messages.gathers.gather_lifetimes.empty()) return;
    const zero::StepUses uses =
        zero::uses_of_step(stage_.options.model, stage_.options.capacity, stage_.options.parts, stage_.options.order);
    std::vector<bool> gathered(stage_.units.size(), false);
    for (const zero::GatherLifetime& lifetime : stage_.messages.gathers.gather_lifetimes) {
      const auto unit = static_cast<std::size_t>(lifetime.unit);
      const bool within_hpz = gathered[unit] && stage_.messages.gather_hpz[unit] != nullptr;
      gathered[unit] = true;
      const SharedCost& cost = within_hpz ? stage_.messages.gather_hpz[unit] : stage_.messages.gather[unit];
      const auto next = std::upper_bound(uses.begin.begin(), uses.begin.end(), lifetime.first);
      const zero::PassOfPart& pass = stage_.options.order[static_cast<std::size_t>(next - uses.begin.begin()) - 1];
      pipeline::PassTimes& part = result_.in_passes[pass.part];
      (pass.backward ? part.backward : part.forward) += count(OperationKind::all_gather, *cost, 1) / turns();
    }
  }

  std::size_t part_of(int unit) const {
    const auto has = [&](const model::Part& part) { return model::has_unit({part}, static_cast<std::size_t>(unit)); };
    return static_cast<std::size_t>(std::find_if(stage_.options.parts.begin(), stage_.options.parts.end(), has) -
                                    stage_.options.parts.begin());
  }

  const StageReductions& stage_;
  int number_;
  const Places& places_;
  std::vector<Sent>& sent_;
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

Reductions reductions_of(const StageReductions& stage, int number, const Places& places, std::vector<Sent>& sent) {
  return StageCosts(stage, number, places, sent).reductions();
}

}  // namespace shoal::plan
