// SPDX-License-Identifier: Apache-2.0
#include "app/plan/strategies.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "app/plan/plan_ranks.hpp"
#include "app/plan/plan_time.hpp"
#include "app/setup/rank_layout.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

using config::Options;

constexpr std::array deciding = {"zero.stage", "zero.hpz_size", "zero.qwz", "zero.qgz", "sync.kind", "pipeline.size"};

struct ZeroStrategy {
  int stage = 0;
  std::size_t hpz_size = 0;  // 0: off, like the others
  int qwz = 0, qgz = 0;
};

Options with_zero(Options options, const ZeroStrategy& zero) {
  options.zero.stage = zero.stage;
  options.zero.hpz_size = zero.hpz_size;
  options.zero.qwz = zero.qwz;
  options.zero.qgz = zero.qgz;
  options.sync.kind = sync::SyncKind::every_step;
  options.pipeline.size = 1;
  return options;
}

/// With the deck's schedule. Its balance is for its own number of stages.
Options with_pipeline(const Options& deck, int stages, int zero_stage) {
  Options options = with_zero(deck, {.stage = zero_stage});
  options.pipeline.size = stages;
  if (stages != deck.pipeline.size) options.pipeline.balance = "auto";
  return options;
}

/// Pipelines of 2, 4, 8, ... stages that divide the ranks, without those that validate() refuses for this deck.
std::vector<Strategy> pipelines(const Options& deck, int ranks) {
  std::vector<Strategy> all;
  for (int stages = 2; ranks % stages == 0; stages *= 2) {
    for (int zero_stage = 0; zero_stage < static_cast<int>(zero::stages.size()); ++zero_stage) {
      Strategy strategy = {text("P=", stages, ", stage ", zero_stage), with_pipeline(deck, stages, zero_stage)};
      try {
        config::require_pipeline(strategy.options, ranks);
      } catch (const Error& error) {
        if (error.code() != Exit::bad_input) throw;
        continue;
      }
      all.push_back(std::move(strategy));
    }
  }
  return all;
}

Options with_sync(const Options& deck, sync::SyncKind kind) {
  Options options = with_zero(deck, {.stage = deck.zero.stage});
  options.sync.kind = kind;
  return options;
}

bool same_strategy(const Options& one, const Options& other) {
  return std::all_of(deciding.begin(), deciding.end(), [&](const char* name) {
    return config::value_text(*config::find(name), one) == config::value_text(*config::find(name), other);
  });
}

/// The strategies but the deck's own.
std::vector<Strategy> named_strategies(const Options& deck, int nodes) {
  constexpr std::array<const char*, zero::stages.size()> stages = {"stage 0", "stage 1", "stage 2", "stage 3"};
  std::vector<Strategy> all;
  all.reserve(stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    all.push_back({stages.at(stage), with_zero(deck, {.stage = static_cast<int>(stage)})});
  }
  if (nodes > 1) {
    const std::size_t near = deck.zero.hpz_size != 0 ? deck.zero.hpz_size : zero::ZeroOptions::whole_node;
    const int qwz = deck.zero.qwz != 0 ? deck.zero.qwz : 8, qgz = deck.zero.qgz != 0 ? deck.zero.qgz : 4;
    all.push_back({"hpZ", with_zero(deck, {.stage = 3, .hpz_size = near})});
    all.push_back({"hpZ+qwZ", with_zero(deck, {.stage = 3, .hpz_size = near, .qwz = qwz})});
    all.push_back({"hpZ+qwZ+qgZ", with_zero(deck, {.stage = 3, .hpz_size = near, .qwz = qwz, .qgz = qgz})});
    for (const sync::SyncRow& kind : sync::sync_kinds) {
      if (kind.value != sync::SyncKind::every_step) all.push_back({kind.name, with_sync(deck, kind.value)});
    }
  }
  return all;
}

void plan_one(PredictedRun& run, const config::Invocation& asked, const TimeModel& model,
              const std::optional<std::size_t>& limit) {
  const Options options = resolved(asked, run.ranks).run.options;
  const PlanInputs inputs = plan_inputs(options, run.ranks, run.cluster.ranks_per_node, limit);
  run.tokens = options.batch.global * options.model.block_size;
  run.memory_bytes = inputs.memory().bytes.total();
  run.stages = options.pipeline.size;
  if (run.stages > 1) {
    run.pipeline = pipeline_step(inputs, options, run.cluster, model.network(options.comm), &model);
    run.time = run.pipeline->time;
    const std::size_t turns =
        plan::turns_of_half_idle(inputs.stages.stages.shape, row_of(options.pipeline.schedule).whole_groups);
    run.half_idle_batch = turns * options.batch.micro * static_cast<std::size_t>(inputs.division.ranks);
    return;
  }
  run.time = plan::step_time(inputs.engine, options.sync, inputs.sync_group_size, run.cluster, model.network(options.comm),
                             model.arithmetic(inputs.engine, inputs.sync_group_size, options.train.dtype));
}

}  // namespace

std::vector<Strategy> strategies(const Options& deck, int nodes, int ranks) {
  std::vector<Strategy> all = named_strategies(deck, nodes);
  for (Strategy& strategy : pipelines(deck, ranks)) all.push_back(std::move(strategy));
  if (std::none_of(all.begin(), all.end(), [&](const Strategy& s) { return same_strategy(s.options, deck); })) {
    all.push_back({own_strategy, deck});
  }
  for (Strategy& strategy : all) forget_unused(strategy.options, {});
  return all;
}

std::optional<Strategy> strategy_named(const Options& deck, const std::string& name) {
  if (name == own_strategy) return Strategy{name, deck};
  for (Strategy& strategy : named_strategies(deck, 2)) {
    if (strategy.name == name) return std::move(strategy);
  }
  return std::nullopt;
}

void forget_unused(Options& options, const std::set<std::string>& kept) {
  const Options unset;
  const auto used = [&](const config::Row& row) {
    const bool of_pipelines = row.name.rfind("pipeline.", 0) == 0;
    return config::is_used(row, options) && !(of_pipelines && options.pipeline.size == 1);
  };
  for (const config::Row& row : config::table()) {
    if (!used(row) && kept.count(row.name) == 0) row.member.set(options, row.member.get(unset));
  }
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Strategy& strategy : named_strategies(Options(), 2)) names.push_back(strategy.name);
  names.emplace_back(own_strategy);
  return names;
}

bool same_trajectory(const Options& options) {
  return options.zero.qwz == 0 && options.zero.qgz == 0 && !sync::trains_locally(options.sync);
}

std::vector<PredictedRun> predict(const config::Invocation& deck, int ranks, const TimeModel& model,
                                  const std::optional<std::size_t>& limit) {
  const plan::Cluster cluster = model.cluster_of(ranks, deck.options.comm.ranks_per_node);
  std::vector<PredictedRun> runs;
  for (const Strategy& strategy : strategies(deck.options, cluster.nodes, ranks)) {
    PredictedRun run;
    run.ranks = ranks;
    run.cluster = cluster;
    run.strategy = strategy.name;
    run.asked = same_strategy(strategy.options, deck.options);
    const Options& o = strategy.options;
    run.same_trajectory = same_trajectory(o);
    for (const char* name : deciding) run.options[name] = config::value_text(*config::find(name), o);
    config::Invocation asked = deck;
    asked.options = o;
    asked.options.comm.ranks_per_node = cluster.ranks_per_node;
    try {
      plan_one(run, asked, model, limit);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_input) throw;
      run.refused = error.what();
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace shoal::app
