// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/pipeline_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "shoal/pipeline/timeline.hpp"
#include "stage_costs.hpp"

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

/// By part of the model. whole_s: both passes of the whole model for one turn.
std::vector<pipeline::PassTimes> pass_times(const zero::EngineOptions& options, const PipelinePlan& plan, double whole_s) {
  const std::vector<pipeline::PassTimes> units = unit_times(options, plan, whole_s);
  std::vector<pipeline::PassTimes> times(static_cast<std::size_t>(pipeline::parts_of_model(plan.shape)), {0, 0});
  for (std::size_t stage = 0; stage < plan.parts.size(); ++stage) {
    for (std::size_t k = 0; k < plan.parts[stage].size(); ++k) {
      pipeline::PassTimes& part = times[k * plan.parts.size() + stage];
      const Range own = plan.parts[stage][k].units;
      for (std::size_t u = own.begin; u < own.end; ++u) {
        part.forward += units[u].forward;
        part.backward += units[u].backward;
      }
    }
  }
  return times;
}

/// By part of the model: the passes with the messages of their stage. reductions: by stage.
std::vector<pipeline::PassTimes> with_messages(std::vector<pipeline::PassTimes> passes,
                                               const std::vector<Reductions>& reductions, bool overlap) {
  const auto together = [&](double arithmetic, double messages) {
    return overlap ? std::max(arithmetic, messages) : arithmetic + messages;
  };
  for (std::size_t m = 0; m < passes.size(); ++m) {
    const pipeline::PassTimes& messages = reductions[m % reductions.size()].in_passes[m / reductions.size()];
    passes[m] = {together(passes[m].forward, messages.forward), together(passes[m].backward, messages.backward)};
  }
  return passes;
}

/// Seconds of arithmetic of a stage in all turns.
double busy(const std::vector<pipeline::PassTimes>& passes, std::size_t stage, const PipelinePlan& plan) {
  double of_turn = 0;
  for (std::size_t m = stage; m < passes.size(); m += plan.parts.size()) of_turn += passes[m].forward + passes[m].backward;
  return of_turn * static_cast<double>(plan.shape.turns);
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

  double all_elements = 0;
  std::vector<double> elements;
  std::vector<Reductions> reductions;
  for (std::size_t s = 0; s < plan.parts.size(); ++s) {
    const StageReductions stage = stage_reductions(options, plan, s, places.data_ranks(), collectives, cluster);
    reductions.push_back(reductions_of(stage, static_cast<int>(s), places, step.sent));
    elements.push_back(stage.optimizer_elements);
    all_elements += elements.back();
  }

  const std::vector<pipeline::PassTimes> passes =
      pass_times(options, plan, arithmetic.micro_batches_s / static_cast<double>(plan.shape.turns));
  pipeline::TimelineCosts costs{with_messages(passes, reductions, options.gradients.overlap)};
  for (int part = 0; part + 1 < pipeline::parts_of_model(plan.shape); ++part) {
    const int from = part % plan.shape.stages, to = (part + 1) % plan.shape.stages;
    costs.messages.push_back(places.seconds(from, to, plan.border_bytes, network));
  }
  costs.skip = places.seconds(0, plan.shape.stages - 1, plan.border_bytes, network);
  const std::vector<pipeline::Buffers> buffers = pipeline::buffers_of(plan.lists, plan.shape);
  const pipeline::Timeline timeline = pipeline::timeline(plan.lists, plan.shape, costs, &buffers);
  step.idle_share = timeline.idle_share();
  const double copies_s = exchange_copies(options, places, plan.shape.stages - 1, network, step.sent);
  double reduced = 0, after = 0, computed = 0;
  for (std::size_t s = 0; s < reductions.size(); ++s) {
    const double end = timeline.actions[s].back().end;
    const double update = arithmetic.update_s * elements[s] / all_elements;
    reduced = std::max(reduced, std::max(end, fullest) + reductions[s].exposed_s + reductions[s].small_s);
    after = std::max(after, update + reductions[s].gather_s);
    computed = std::max(computed, busy(passes, s, plan) + update);
    step.time.communication_s = std::max(step.time.communication_s, borders_s[s] + reductions[s].total_s);
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
