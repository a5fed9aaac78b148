// SPDX-License-Identifier: Apache-2.0
#include "plan_ranks.hpp"

#include <algorithm>
#include <utility>

#include "setup.hpp"
#include "shoal/base/error.hpp"
#include "shoal/zero/options.hpp"

namespace shoal::app {

Resolved resolved(config::Invocation asked, int ranks) {
  for (int* const on_node : {&asked.options.comm.ranks_per_node, &asked.options.sync.nprocs_per_node}) {
    if (*on_node > 0 && ranks % *on_node != 0) *on_node = 0;
  }
  std::size_t& neighbours = asked.options.zero.hpz_size;
  const int stages_asked = asked.options.pipeline.size;
  if (!zero::hpz_divides(neighbours, ranks % stages_asked == 0 ? ranks / stages_asked : ranks)) neighbours = 0;
  Resolved result = {asked};
  try {
    config::validate(result.run, ranks);
    return result;
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input || asked.options.batch.global == 0) throw;
  }
  result = {asked, true};
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
  const Division division = divide(options, ranks, on_node);
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
