// SPDX-License-Identifier: Apache-2.0
#include "app/plan/plan_ranks.hpp"

#include <algorithm>
#include <utility>

#include "app/setup/extra_memory.hpp"
#include "shoal/base/error.hpp"
#include "shoal/zero/options.hpp"

namespace shoal::app {

namespace {

/// Returns options of nodes that do not divide the ranks, and makes them what they are by default.
std::vector<std::string> drop_what_does_not_divide(config::Options& o, int ranks) {
  std::vector<std::string> dropped;
  const auto drop = [&dropped](const char* name, auto& value, bool of_fewer_ranks) {
    if (of_fewer_ranks) dropped.push_back(text(name, " = ", value));
    value = 0;
  };
  int &on_node = o.comm.ranks_per_node, &training = o.sync.nprocs_per_node;
  if (on_node > 0 && ranks % on_node != 0) drop("comm.ranks_per_node", on_node, on_node < ranks);
  if (training > 0 && ranks % training != 0) drop("sync.nprocs_per_node", training, training < ranks);
  const int data_ranks = ranks % o.pipeline.size == 0 ? ranks / o.pipeline.size : ranks;
  if (!zero::hpz_divides(o.zero.hpz_size, data_ranks)) drop("zero.hpz_size", o.zero.hpz_size, true);
  return dropped;
}

}  // namespace

Resolved resolved(config::Invocation asked, int ranks) {
  const std::vector<std::string> dropped = drop_what_does_not_divide(asked.options, ranks);
  Resolved result = {asked, false, dropped};
  try {
    config::validate(result.run, ranks);
    return result;
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input || asked.options.batch.global == 0) throw;
  }
  result = {asked, true, dropped};
  config::BatchOptions& batch = result.run.options.batch;
  const bool micro_follows = asked.deepspeed && asked.places.of("batch.micro").empty();
  if (micro_follows) {  // a DeepSpeed configuration sets the global batch alone
    const std::size_t times = std::max<std::size_t>(asked.deepspeed_rest.accumulation, 1);
    batch.micro = std::max<std::size_t>(1, batch.global / times / static_cast<std::size_t>(ranks));
    result.run.places.set("batch.micro", asked.places.of("batch.global"));
  }
  const int stages = result.run.options.pipeline.size;
  batch.global = stages == 1 ? 0 : batch.micro * static_cast<std::size_t>(ranks);  // a micro-batch for each stage
  config::validate(result.run, ranks);                                             // throws if something else is wrong
  return result;
}

PlanInputs plan_inputs(const config::Options& options, int ranks, int on_node, const std::optional<std::size_t>& limit) {
  const RankLayout division = divide(options, ranks, on_node);
  PlannedStages planned = plan_stages(options, division, Purpose::train, limit);
  return {planned.engine_of(planned.largest), division.sync_group_size,
          extra_allocations(options, division, planned.stages, Purpose::train), division, std::move(planned)};
}

plan::PipelinePlan pipeline_plan(const PlanInputs& inputs, const config::Options& options) {
  const StagePlan& stages = inputs.stages.stages;
  plan::PipelinePlan plan{stages.shape, stages.lists, stages.parts, stages.orders};
  Memory counting;
  zero::Engine engine(inputs.engine, {0, inputs.sync_group_size, nullptr}, counting);
  plan.border_bytes = border_bytes(options, engine);
  return plan;
}

std::string memory_problem(const PlanInputs& inputs, const config::Options& options, std::size_t limit) {
  return memory_problem(inputs.stages, options, inputs.division, Purpose::train, limit);
}

}  // namespace shoal::app
