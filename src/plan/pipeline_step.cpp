// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/pipeline_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/model/costs.hpp"
#include "shoal/pipeline/timeline.hpp"

namespace shoal::plan {

namespace {

/// Number of borders that one stage sends to another in a step, by the pair of stages.
using Borders = std::map<std::pair<int, int>, std::size_t>;

Borders borders_of(const PipelinePlan& plan) {
  Borders borders;
  pipeline::ScheduleShape shape = plan.shape;
  for (shape.stage = 0; shape.stage < shape.stages; ++shape.stage) {
    for (const pipeline::Action& action : plan.lists[static_cast<std::size_t>(shape.stage)]) {
      const auto made = pipeline::border_made(shape, action);
      if (made) ++borders[{shape.stage, pipeline::receiver(shape, *made)}];
    }
  }
  return borders;
}

/// The ranks of a run with pipelines.
class Places {
 public:
  Places(const PipelinePlan& plan, const Cluster& cluster)
      : of_stage_(cluster.ranks() / plan.shape.stages), on_node_(cluster.ranks_per_node) {
    require(cluster.ranks() % plan.shape.stages == 0, plan.shape.stages, " stages on ", cluster.ranks(), " ranks");
  }
  int data_ranks() const { return of_stage_; }
  int rank(int stage, int d) const { return stage * of_stage_ + d; }
  int node(int rank) const { return rank / on_node_; }
  bool crosses(int from, int to, int d) const { return node(rank(from, d)) != node(rank(to, d)); }

  /// One border of all ranks of a stage, which send at the same time.
  double seconds(int from, int to, std::size_t bytes, const NetworkModel& network) const {
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

 private:
  int of_stage_, on_node_;
};

/// What the ranks of one stage exchange with each other in a step.
struct Reductions {
  double reduce_s = 0;            ///< gradients; in stage 0 their gather, too
  double gather_s = 0;            ///< parameters
  double small_s = 0;             ///< losses and norm
  double optimizer_elements = 0;  ///< that its first rank updates
};

void add(Sent& sent, OperationKind kind, const Cost& cost, std::size_t rank, double times) {
  sent[kind].intra += times * static_cast<double>(cost.sent[rank].intra);
  sent[kind].inter += times * static_cast<double>(cost.sent[rank].inter);
}

Reductions reductions_of(const zero::EngineOptions& options, int stage, const Places& places,
                         const CollectiveCosts& collectives, const Cluster& cluster, std::vector<Sent>& sent) {
  const std::vector<model::UnitLayout> units = model::layout(options.model);
  zero::RankGroups group;
  group.ranks = places.data_ranks();
  const std::vector<zero::ShardLayout> layouts = zero::shard_layouts(units, options.zero, group, options.parts);
  Reductions result;
  for (const zero::ShardLayout& layout : layouts) result.optimizer_elements += static_cast<double>(layout.optimizer.size());
  const zero::AccumulationPlan accumulation(options.micro_batches, group.ranks, false,
                                            options.gradients.collectives == comm::Collectives::native);
  const StepMessages messages = step_messages(options, units, layouts, accumulation, collectives, cluster);
  const auto all = [&](OperationKind kind, const std::vector<SharedCost>& costs, double times) {
    double seconds = 0;
    for (const SharedCost& cost : costs) {
      seconds += times * cost->total_s();
      for (int d = 0; d < group.ranks; ++d) {
        const auto rank = static_cast<std::size_t>(places.rank(stage, d));
        add(sent[rank], kind, *cost, rank, times);
      }
    }
    return seconds;
  };
  result.reduce_s = all(OperationKind::reduce_scatter, messages.reduce, static_cast<double>(accumulation.rounds)) +
                    all(OperationKind::all_gather, messages.gather_gradients, 1);
  result.gather_s = all(OperationKind::all_gather, messages.gather_parameters, 1);
  result.small_s = 2 * messages.small.total_s();
  return result;
}

/// What the last stage and the first one send each other of a tied embedding (zero/copies.hpp): each rank of the last one
/// its shard of the gradient, and the first one's rank with the same number what it updates. Returns the seconds of both.
double exchange_copies(const zero::EngineOptions& options, const Places& places, int last, const NetworkModel& network,
                       std::vector<Sent>& sent) {
  double seconds = 0;
  for (const model::UnitLayout& unit : model::layout(options.model)) {
    if (!unit.copy_of) continue;
    const auto send = [&](int from, int to, std::size_t largest, const auto& elements_of, DType dtype) {
      for (int d = 0; d < places.data_ranks(); ++d) {
        Bytes& bytes = sent[static_cast<std::size_t>(places.rank(from, d))][OperationKind::send];
        (places.crosses(from, to, d) ? bytes.inter : bytes.intra) += static_cast<double>(elements_of(d) * size_of(dtype));
      }
      seconds += places.seconds(from, to, largest * size_of(dtype), network);
    };
    const auto shard = [&](int d) { return zero::shard_of(unit.elements, d, places.data_ranks()).size(); };
    const bool in_part = places.data_ranks() > 1 && zero::stage_of(options.zero).shards_optimizer;
    send(last, 0, shard(0), shard, options.gradients.dtype);
    send(
        0, last, in_part ? shard(0) : unit.elements, [&](int d) { return in_part ? shard(d) : unit.elements; },
        options.dtype);
  }
  return seconds;
}

/// By part of the model. whole_s: both passes of the whole model for one turn.
std::vector<pipeline::PassTimes> pass_times(const zero::EngineOptions& options, const PipelinePlan& plan, double whole_s) {
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  double all = 0;
  for (const model::UnitCost& cost : costs) all += cost.flops();
  const double s_per_flop = whole_s / all;
  std::vector<pipeline::PassTimes> times(static_cast<std::size_t>(pipeline::parts_of_model(plan.shape)), {0, 0});
  for (std::size_t stage = 0; stage < plan.parts.size(); ++stage) {
    for (std::size_t k = 0; k < plan.parts[stage].size(); ++k) {
      pipeline::PassTimes& part = times[k * plan.parts.size() + stage];
      const Range units = plan.parts[stage][k].units;
      for (std::size_t u = units.begin; u < units.end; ++u) {
        if (u > options.model.n_layer) {
          // The head's backward pass follows its forward pass at once, and nothing of it is computed again.
          part.forward += s_per_flop * costs[u].flops();
          continue;
        }
        part.forward += s_per_flop * costs[u].forward_flops;
        part.backward += s_per_flop * (costs[u].backward_flops + plan.recomputed * costs[u].forward_flops);
      }
    }
  }
  return times;
}

double busy(const pipeline::Timeline& timeline, std::size_t stage) {
  return timeline.step * (1 - timeline.idle_share(stage));
}

}  // namespace

PipelineStep pipeline_step(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                           const NetworkModel& network, const Arithmetic& arithmetic) {
  const Places places(plan, cluster);
  const CollectiveCosts collectives(network, cluster);
  PipelineStep step;
  step.sent.resize(static_cast<std::size_t>(cluster.ranks()));
  step.ideal_idle_share = pipeline::ideal_idle_share(plan.shape);

  double fullest = 0;  // seconds of all borders on one link
  std::vector<double> borders_s(plan.parts.size());
  for (const auto& [stages, count] : borders_of(plan)) {
    const auto [from, to] = stages;
    const double seconds = places.seconds(from, to, plan.border_bytes, network);
    fullest = std::max(fullest, seconds * static_cast<double>(count));
    borders_s[static_cast<std::size_t>(from)] += seconds * static_cast<double>(count);
    for (int d = 0; d < places.data_ranks(); ++d) {
      Bytes& bytes = step.sent[static_cast<std::size_t>(places.rank(from, d))][OperationKind::send];
      (places.crosses(from, to, d) ? bytes.inter : bytes.intra) += static_cast<double>(count * plan.border_bytes);
    }
  }

  const double turns = static_cast<double>(plan.shape.turns);
  pipeline::TimelineCosts costs{pass_times(options, plan, arithmetic.micro_batches_s / turns)};
  for (int part = 0; part + 1 < pipeline::parts_of_model(plan.shape); ++part) {
    const int from = part % plan.shape.stages, to = (part + 1) % plan.shape.stages;
    costs.messages.push_back(places.seconds(from, to, plan.border_bytes, network));
  }
  const std::vector<pipeline::Buffers> buffers = pipeline::buffers_of(plan.lists, plan.shape);
  const pipeline::Timeline timeline = pipeline::timeline(plan.lists, plan.shape, costs, &buffers);
  step.idle_share = timeline.idle_share();
  double all_elements = 0;
  std::vector<Reductions> reductions;
  for (std::size_t s = 0; s < plan.parts.size(); ++s) {
    zero::EngineOptions of_stage = options;
    of_stage.parts = plan.parts[s];
    reductions.push_back(reductions_of(of_stage, static_cast<int>(s), places, collectives, cluster, step.sent));
    all_elements += reductions.back().optimizer_elements;
  }
  const double copies_s = exchange_copies(options, places, plan.shape.stages - 1, network, step.sent);
  double reduced = 0, after = 0, computed = 0;
  for (std::size_t s = 0; s < reductions.size(); ++s) {
    const double end = timeline.actions[s].back().end;
    const double update = arithmetic.update_s * reductions[s].optimizer_elements / all_elements;
    reduced = std::max(reduced, std::max(end, fullest) + reductions[s].reduce_s + reductions[s].small_s);
    after = std::max(after, update + reductions[s].gather_s);
    computed = std::max(computed, busy(timeline, s) + update);
    step.time.communication_s = std::max(
        step.time.communication_s, borders_s[s] + reductions[s].reduce_s + reductions[s].small_s + reductions[s].gather_s);
  }
  reduced += copies_s;
  step.time.communication_s += copies_s;
  step.time.compute_s = computed;
  step.time.exposed_s = std::max(0.0, reduced + after - computed);
  set_sent(step.time, step.sent, cluster);
  return step;
}

std::size_t turns_of_half_idle(const pipeline::ScheduleShape& shape, bool whole_groups) {
  const auto parts = static_cast<std::size_t>(shape.parts), stages = static_cast<std::size_t>(shape.stages);
  // (P - 1) / (v A + P - 1) is halved by v A' + P - 1 = 2 (v A + P - 1).
  const std::size_t turns = (2 * parts * shape.turns + stages - 1 + parts - 1) / parts;
  return whole_groups ? (turns + stages - 1) / stages * stages : turns;
}

}  // namespace shoal::plan
