// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/pipeline_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/model/costs.hpp"
#include "shoal/pipeline/timeline.hpp"
#include "stage_simulation.hpp"

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
        part.forward += s_per_flop * costs[u].forward_flops;
        part.backward += s_per_flop * costs[u].backward_flops;
        // The head's backward pass follows its forward pass at once, and nothing of it is computed again.
        if (u <= options.model.n_layer) part.backward += s_per_flop * plan.recomputed * costs[u].forward_flops;
      }
    }
  }
  return times;
}

double busy(const pipeline::Timeline& timeline, std::size_t stage) {
  return timeline.step * (1 - timeline.idle_share(stage));
}

/// All stages of a pipeline.
class Stages {
 public:
  Stages(const zero::EngineOptions& options, const PipelinePlan& plan, const pipeline::TimelineCosts& costs,
         const Places& places, const CollectiveCosts& collectives, const Cluster& cluster)
      : plan_(plan), costs_(costs), buffers_(pipeline::buffers_of(plan.lists, plan.shape)) {
    zero::EngineOptions of_stage = options;
    for (std::size_t s = 0; s < plan.parts.size(); ++s) {
      of_stage.parts = plan.parts[s];
      std::vector<pipeline::PassTimes> times;
      for (std::size_t k = 0; k < plan.parts[s].size(); ++k) times.push_back(costs.parts[k * plan.parts.size() + s]);
      stages_.emplace_back(of_stage, times, places.data_ranks(), collectives, cluster);
      elements_ += stages_.back().optimizer_elements();
    }
    alone_ = timeline(costs);
  }

  /// The passes, if no stage ever waited for messages of its own ranks.
  const pipeline::Timeline& alone() const { return alone_; }
  /// Seconds of a stage's update, of those that a rank with the whole model takes.
  double update_s(std::size_t stage, double whole) const { return whole * stages_[stage].optimizer_elements() / elements_; }
  Timeline& time_of(std::size_t stage) { return stages_[stage].time(); }

  /// A step that all stages begin at this moment. linked_s: until then its borders fill a link. copies_s: of what follows
  /// the reductions of all stages. Returns its end.
  double step(double start, double linked_s, double copies_s, double whole_update_s) {
    pipeline::TimelineCosts costs = costs_;
    costs.takes = [&](std::size_t s, std::size_t action, double begin) {
      return stages_[s].pass(plan_.lists[s][action], start + begin);
    };
    timeline(costs);
    double reduced = 0, end = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].reduce(start + linked_s);
      reduced = std::max(reduced, stages_[s].now_s());
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].update(reduced + copies_s, update_s(s, whole_update_s));
      end = std::max(end, stages_[s].now_s());
    }
    return end;
  }

 private:
  pipeline::Timeline timeline(const pipeline::TimelineCosts& costs) const {
    return pipeline::timeline(plan_.lists, plan_.shape, costs, &buffers_);
  }

  const PipelinePlan& plan_;
  const pipeline::TimelineCosts& costs_;
  std::vector<pipeline::Buffers> buffers_;
  std::vector<StageSimulation> stages_;
  pipeline::Timeline alone_;
  double elements_ = 0;
};

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
  const double copies_s = exchange_copies(options, places, plan.shape.stages - 1, network, step.sent);
  Stages stages(options, plan, costs, places, collectives, cluster);
  step.idle_share = stages.alone().idle_share();
  // The second step begins with updated parameters in flight, as all but the first do.
  const double begin = stages.step(0, fullest, copies_s, arithmetic.update_s);
  for (std::size_t s = 0; s < plan.parts.size(); ++s) stages.time_of(s).set_weight(1);
  const double seconds = stages.step(begin, fullest, copies_s, arithmetic.update_s) - begin;
  for (std::size_t s = 0; s < plan.parts.size(); ++s) {
    const Timeline& time = stages.time_of(s);
    for (int d = 0; d < places.data_ranks(); ++d) {
      const auto rank = static_cast<std::size_t>(places.rank(static_cast<int>(s), d));
      step.sent[rank] += time.sent()[rank];
    }
    step.time.communication_s = std::max(step.time.communication_s, borders_s[s] + time.communication_s());
    step.time.compute_s = std::max(step.time.compute_s, busy(stages.alone(), s) + stages.update_s(s, arithmetic.update_s));
  }
  step.time.communication_s += copies_s;
  step.time.exposed_s = std::max(0.0, seconds - step.time.compute_s);
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
