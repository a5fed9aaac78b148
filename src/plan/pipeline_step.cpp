// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/pipeline_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "pipeline_copies.hpp"
#include "shoal/base/error.hpp"
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
      for (const auto& made : {pipeline::border_made(shape, action), pipeline::skip_made(shape, action)}) {
        if (made) ++borders[{shape.stage, pipeline::receiver(shape, *made)}];
      }
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

/// Adds what the ends of the model send each other of copied units to `sent`. Returns the seconds of all.
double exchange_copies(const zero::EngineOptions& options, const Places& places, int last, const NetworkModel& network,
                       std::vector<Sent>& sent) {
  double seconds = 0;
  const auto send = [&](int from, int to, const std::vector<std::size_t>& bytes_of) {
    for (int d = 0; d < places.data_ranks(); ++d) {
      Bytes& bytes = sent[static_cast<std::size_t>(places.rank(from, d))][OperationKind::send];
      (places.crosses(from, to, d) ? bytes.inter : bytes.intra) +=
          static_cast<double>(bytes_of[static_cast<std::size_t>(d)]);
    }
    seconds += places.seconds(from, to, bytes_of.front(), network);
  };
  for (const CopyBytes& copy : copies_of(options, places.data_ranks())) {
    send(last, 0, copy.gradient);
    send(0, last, copy.parameters);
  }
  return seconds;
}

/// All stages of a pipeline.
class Stages {
 public:
  /// borders: the seconds of their messages.
  Stages(const zero::EngineOptions& options, const PipelinePlan& plan, pipeline::TimelineCosts borders,
         const CollectiveCosts& collectives, const Cluster& cluster, const Arithmetic& arithmetic)
      : plan_(plan),
        borders_(std::move(borders)),
        buffers_(pipeline::buffers_of(plan.lists, plan.shape)),
        whole_update_s_(arithmetic.update_s) {
    for (std::size_t s = 0; s < plan.parts.size(); ++s) {
      stages_.emplace_back(options, plan, s, cluster, collectives, arithmetic);
      elements_ += stages_.back().optimizer_elements();
    }
    alone_ = timeline([&](std::size_t s, std::size_t action, double) { return stages_[s].seconds(action); });
  }

  /// The passes, if no stage ever waited for messages of its own ranks.
  const pipeline::Timeline& alone() const { return alone_; }
  /// Seconds that a stage computes in a step.
  double computes_s(std::size_t stage) const { return alone_.step * (1 - alone_.idle_share(stage)) + update_s(stage); }
  RankClock& time_of(std::size_t stage) { return stages_[stage].time(); }

  /// A step that all stages begin at this moment. linked_s: until then its borders fill a link. copies_s: of what follows
  /// the reductions of all stages. Returns its end.
  double step(double start, double linked_s, double copies_s) {
    timeline([&](std::size_t s, std::size_t action, double begin) {
      stages_[s].wait_until(start + begin);
      stages_[s].pass(action);
      return stages_[s].now_s() - start - begin;
    });
    double reduced = 0, end = 0;
    for (StageSimulation& stage : stages_) {
      stage.wait_until(start + linked_s);
      stage.finish_gradients();
      reduced = std::max(reduced, stage.now_s());
      stage.start_gradient_gather();
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].wait_until(reduced + copies_s);
      stages_[s].update(update_s(s));
      stages_[s].publish();
      end = std::max(end, stages_[s].now_s());
    }
    return end;
  }

 private:
  using Takes = std::function<double(std::size_t stage, std::size_t action, double begin)>;

  pipeline::Timeline timeline(const Takes& takes) const {
    pipeline::TimelineCosts costs = borders_;
    costs.takes = takes;
    return pipeline::timeline(plan_.lists, plan_.shape, costs, &buffers_);
  }
  double update_s(std::size_t stage) const { return whole_update_s_ * stages_[stage].optimizer_elements() / elements_; }

  const PipelinePlan& plan_;
  pipeline::TimelineCosts borders_;
  std::vector<pipeline::Buffers> buffers_;
  double whole_update_s_;
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

  pipeline::TimelineCosts borders;
  borders.parts.resize(static_cast<std::size_t>(pipeline::parts_of_model(plan.shape)));  // each stage says what they take
  for (int part = 0; part + 1 < pipeline::parts_of_model(plan.shape); ++part) {
    const int from = part % plan.shape.stages, to = (part + 1) % plan.shape.stages;
    borders.messages.push_back(places.seconds(from, to, plan.border_bytes, network));
  }
  borders.skip = places.seconds(0, plan.shape.stages - 1, plan.border_bytes, network);
  const double copies_s = exchange_copies(options, places, plan.shape.stages - 1, network, step.sent);
  Stages stages(options, plan, borders, collectives, cluster, arithmetic);
  step.idle_share = stages.alone().idle_share();
  // The second step begins with updated parameters in flight, as all but the first do.
  const double begin = stages.step(0, fullest, copies_s);
  for (std::size_t s = 0; s < plan.parts.size(); ++s) stages.time_of(s).set_weight(1);
  const double seconds = stages.step(begin, fullest, copies_s) - begin;
  for (std::size_t s = 0; s < plan.parts.size(); ++s) {
    const RankClock& time = stages.time_of(s);
    for (int d = 0; d < places.data_ranks(); ++d) {
      step.sent[static_cast<std::size_t>(places.rank(static_cast<int>(s), d))] += time.sent()[static_cast<std::size_t>(d)];
    }
    step.time.communication_s = std::max(step.time.communication_s, borders_s[s] + time.communication_s());
    step.time.compute_s = std::max(step.time.compute_s, stages.computes_s(s));
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
