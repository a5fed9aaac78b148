// SPDX-License-Identifier: Apache-2.0
#include "app/setup/pipeline_setup.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/base/types.hpp"
#include "shoal/model/costs.hpp"
#include "shoal/pipeline/balance.hpp"

namespace shoal::app {

namespace {

using pipeline::Checkpoint;

/// The slots of one part of a stage. kept: by turn, whether it keeps all activations.
model::Part part_of(Range units, const std::vector<pipeline::Action>& list, std::size_t part,
                    const std::vector<bool>& kept) {
  std::size_t open[2] = {0, 0}, most[2] = {0, 0};  // turns between forward and backward; the second: those that keep all
  for (const pipeline::Action& action : list) {
    if (action.part != part) continue;
    const std::size_t whole = kept[action.turn] ? 1 : 0;
    if (action.kind == pipeline::Action::Kind::forward) {
      most[whole] = std::max(most[whole], ++open[whole]);
    } else {
      --open[whole];
    }
  }
  return {units, most[0] + most[1], most[1]};
}

zero::StepOrder order_of(const std::vector<pipeline::Action>& list, const std::vector<bool>& kept) {
  zero::StepOrder order;
  for (const pipeline::Action& action : list) {
    order.push_back({action.part, action.kind == pipeline::Action::Kind::backward, kept[action.turn]});
  }
  return order;
}

}  // namespace

pipeline::Balance balance_of(const config::Options& options) {
  const auto parts = static_cast<std::size_t>(options.pipeline.size) * static_cast<std::size_t>(options.pipeline.parts);
  if (auto given = pipeline::read_balance(options.pipeline.balance, parts, options.model.n_layer).balance) return *given;
  return *balance_of(options, {});
}

std::optional<pipeline::Balance> balance_of(const config::Options& options, const pipeline::Fits& fits) {
  const auto parts = static_cast<std::size_t>(options.pipeline.size) * static_cast<std::size_t>(options.pipeline.parts);
  const std::vector<model::UnitCost> units = model::costs(options.model, options.train.dtype, {});
  std::vector<double> layers;
  for (std::size_t unit = 1; unit <= options.model.n_layer; ++unit) layers.push_back(units[unit].flops());
  layers.front() += units.front().flops();
  for (std::size_t unit = layers.size() + 1; unit < units.size(); ++unit) layers.back() += units[unit].flops();
  return pipeline::least_largest(layers, parts, fits);
}

bool keeps_activations(const config::Options& options, std::size_t turn, std::size_t turns) {
  switch (options.pipeline.checkpoint) {
    case Checkpoint::never: return true;
    case Checkpoint::except_last: return turn + 1 == turns;
    case Checkpoint::always: return false;
  }
  fail("no such pipeline.checkpoint");
}

StagePlan stage_plan(const config::Options& options, int stage, std::size_t turns, bool training) {
  const pipeline::PipelineOptions& p = options.pipeline;
  StagePlan plan;
  plan.shape = {
      .stages = p.size, .stage = stage, .parts = p.parts, .turns = turns, .skip = options.model.has_skip_connection()};
  if (!training) {
    plan.lists = pipeline::evaluation_lists(plan.shape);
  } else {
    plan.lists = pipeline::lists_of(p.size == 1 ? pipeline::Schedule::depth_first : p.schedule, plan.shape);
  }
  plan.parts.resize(static_cast<std::size_t>(p.size));
  plan.orders.resize(plan.parts.size());
  if (p.size == 1) return plan;
  std::vector<bool> kept;
  for (std::size_t turn = 0; turn < turns; ++turn) kept.push_back(keeps_activations(options, turn, turns));
  std::vector<Range> units = pipeline::units_of(balance_of(options));
  units.back().end = model::layout(options.model).size();  // the head may be several units
  for (std::size_t m = 0; m < units.size(); ++m) {
    const std::size_t of_stage = m % plan.parts.size(), part = m / plan.parts.size();
    plan.parts[of_stage].push_back(part_of(units[m], plan.lists[of_stage], part, kept));
  }
  for (std::size_t s = 0; s < plan.orders.size() && training; ++s) plan.orders[s] = order_of(plan.lists[s], kept);
  return plan;
}

zero::EngineOptions with_parts(zero::EngineOptions engine, const StagePlan& stages, std::size_t stage) {
  engine.parts = stages.parts[stage];
  engine.order = stages.orders[stage];
  return engine;
}

std::size_t border_bytes(const config::Options& options, zero::Engine& engine) {
  const model::MicroBatch largest{options.batch.micro, options.model.block_size, {}, {}, 0, 0};
  return engine.model().border_elements(largest) * size_of(options.train.dtype);
}

}  // namespace shoal::app
