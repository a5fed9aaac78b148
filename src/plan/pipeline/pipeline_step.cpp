// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/pipeline_step.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/pipeline/pipeline_run.hpp"

namespace shoal::plan {

namespace {

/// The last one is measured. It begins with updated parameters in flight, and with links as a step leaves them.
constexpr std::size_t steps = 3;

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

/// Adds what each rank of a stage sends to the rank of another stage with the same number.
void add_sent(std::vector<Sent>& sent, const StagePlaces& places, int from, int to,
              const std::vector<std::size_t>& bytes_of) {
  for (int d = 0; d < places.data_ranks(); ++d) {
    Bytes& bytes = sent[static_cast<std::size_t>(places.rank(from, d))][OperationKind::send];
    (places.crosses(from, to, d) ? bytes.inter : bytes.intra) += static_cast<double>(bytes_of[static_cast<std::size_t>(d)]);
  }
}

}  // namespace

PipelineStep pipeline_step(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                           const NetworkModel& network, const Arithmetic& arithmetic) {
  const int stages = plan.shape.stages, last = stages - 1;
  const StagePlaces places(stages, cluster);
  const CollectiveCosts collectives(network, cluster);
  PipelineStep step;
  step.sent.resize(static_cast<std::size_t>(cluster.ranks()));
  step.ideal_idle_share = pipeline::ideal_idle_share(plan.shape);

  std::vector<double> borders_s(plan.parts.size());
  for (const auto& [pair, count] : borders_of(plan)) {
    const auto [from, to] = pair;
    const double seconds = places.transfer(from, to, plan.border_bytes, network).total_s();
    borders_s[static_cast<std::size_t>(from)] += seconds * static_cast<double>(count);
    add_sent(step.sent, places, from, to,
             std::vector(static_cast<std::size_t>(places.data_ranks()), count * plan.border_bytes));
  }
  const std::vector<CopyBytes> copies = copies_of(options, places.data_ranks());
  for (const CopyBytes& copy : copies) {
    add_sent(step.sent, places, last, 0, copy.gradient);
    add_sent(step.sent, places, 0, last, copy.parameters);
    step.time.communication_s += places.transfer(last, 0, copy.gradient.front(), network).total_s() +
                                 places.transfer(0, last, copy.parameters.front(), network).total_s();
  }

  std::vector<StageSchedule> schedules = stage_schedules(options, plan, cluster, collectives, arithmetic);
  PipelineRun run(plan, places, network, arithmetic, schedules, copies);
  run.execute(steps);
  double most_s = 0, passes_s = 0;
  for (int s = 0; s < stages; ++s) {
    for (int d = 0; d < places.data_ranks(); ++d) {
      step.sent[static_cast<std::size_t>(places.rank(s, d))] += run.sent(s)[static_cast<std::size_t>(d)];
    }
    most_s = std::max(most_s, borders_s[static_cast<std::size_t>(s)] + run.operations_s(s));
    passes_s += run.passes_s(s) / stages;
    step.time.compute_s = std::max(step.time.compute_s, run.computes_s(s));
  }
  step.idle_share = run.last_pass_s() > 0 ? std::max(0.0, 1 - passes_s / run.last_pass_s()) : 0;
  step.time.communication_s += most_s;
  step.time.exposed_s = std::max(0.0, run.seconds() - step.time.compute_s);
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
