// SPDX-License-Identifier: Apache-2.0
// shoal plan: predicts the memory of every ZeRO stage on any number of ranks, and step times, on one process and without
// training.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "app/plan/plan_ranks.hpp"
#include "app/plan/plan_report.hpp"
#include "app/plan/plan_stages.hpp"
#include "app/plan/plan_trace.hpp"
#include "app/setup/open_data.hpp"
#include "app/setup/rank_layout.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/own_results.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/model/model.hpp"
#include "shoal/plan/deepspeed_estimate.hpp"
#include "shoal/plan/fit.hpp"
#include "shoal/plan/model_states.hpp"
#include "shoal/plan/node_memory.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

/// The parameters of a model by its number of layers. Each number is counted once, since all rows of the table ask for the
/// same ones, and the layout of a thousand layers takes long to make.
class ParameterCounts {
 public:
  explicit ParameterCounts(model::ModelOptions model) : model_(std::move(model)) {}

  std::size_t with(std::size_t layers) {
    if (const auto known = counts_.find(layers); known != counts_.end()) return known->second;
    model_.n_layer = layers;
    return counts_[layers] = model::parameter_count(model_);
  }

 private:
  model::ModelOptions model_;
  std::map<std::size_t, std::size_t> counts_;
};

/// The interval for the rows with activation checkpointing: the deck's, or auto.
std::int64_t with_checkpointing(const config::Options& options) {
  const std::int64_t interval = options.activation.checkpoint_interval;
  return interval == 0 ? model::ActivationOptions::automatic : interval;
}

PlannedRun plan_run(const config::Options& options, int ranks, int stage, std::int64_t interval,
                    const std::optional<std::size_t>& limit, ParameterCounts& parameters) {
  PlannedRun run;
  run.ranks = ranks;
  run.micro = options.batch.micro;
  run.global = options.batch.global;
  run.stage = stage;
  run.checkpoint_interval = interval;
  run.asked = stage == options.zero.stage && interval == options.activation.checkpoint_interval;
  config::Options changed = options;
  changed.zero.stage = stage;
  changed.activation.checkpoint_interval = interval;
  try {
    config::require_pipeline(changed, ranks);
    PlanInputs inputs = plan_inputs(changed, ranks, ranks, limit);
    const zero::EngineOptions& engine = inputs.engine;
    const int sync_group_size = inputs.sync_group_size;
    run.plan = inputs.memory();
    if (options.pipeline.size > 1) {
      run.stages = stage_rows(inputs.stages);
      if (run.asked) run.cost_of_turns = cost_of_turns(inputs, changed);
      if (limit) run.does_not_fit = memory_problem(inputs, changed, *limit);
      return run;
    }
    run.paper = plan::model_states(parameters.with(options.model.n_layer), engine, sync_group_size);
    if (limit) {
      run.layers = plan::max_layers_that_fit(engine, sync_group_size, *limit, inputs.extra);
      run.parameters_then = *run.layers == 0 ? 0 : parameters.with(*run.layers);
    }
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    run.refused = error.what();
  }
  return run;
}

/// DeepSpeed's estimates for all its ways to run, on nodes of comm.ranks_per_node ranks, or on one node if that is not set.
/// options: on the nodes of the plan (resolved_on_nodes()).
std::vector<DeepSpeedRow> deepspeed_rows(const config::Options& options, int ranks) {
  const plan::DeepSpeedModel model = plan::deepspeed_model(model::layout(options.model));
  const int on_node = options.comm.ranks_per_node;
  plan::DeepSpeedCluster cluster;
  cluster.gpus_per_node = on_node > 0 ? on_node : ranks;
  cluster.nodes = ranks / cluster.gpus_per_node;
  std::vector<DeepSpeedRow> rows;
  for (const bool offload : {false, true}) {
    rows.push_back({ranks, 2, cluster, {offload}, plan::deepspeed_zero2(model, cluster, offload)});
  }
  for (const bool offload : {false, true}) {
    for (const bool params : {false, true}) {
      if (params && !offload) continue;
      for (const bool zero_init : {false, true}) {
        const plan::DeepSpeedZero3 how = {offload, params, zero_init};
        rows.push_back({ranks, 3, cluster, how, plan::deepspeed_zero3(model, cluster, how)});
      }
    }
  }
  return rows;
}

void add(std::string& list, int ranks) { list += text(list.empty() ? "" : ", ", ranks); }

/// Leaves out numbers of ranks that pipeline.size does not divide, unless there is no other: then the first is refused.
std::vector<int> divisible(std::vector<int> ranks, int stages, PlanReport& report) {
  std::vector<int> left;
  std::string left_out;
  for (const int count : ranks) {
    if (count % stages == 0) left.push_back(count);
    if (count % stages != 0) add(left_out, count);
  }
  if (left.empty() || left_out.empty()) return ranks;
  report.notes.push_back(text("pipeline.size = ", stages, " does not divide ", left_out, " ranks: not planned there"));
  return left;
}

std::optional<std::size_t> limit_of(const config::Invocation& invocation) {
  const auto& asked = invocation.own<std::string>("memory");
  if (!asked.empty()) return parse_bytes(asked, "--memory");
  const double limit = invocation.options.memory_limit_gib;
  return limit > 0 ? std::optional(plan::limit_bytes(limit)) : std::nullopt;
}

/// The deck on so many ranks, on the nodes that the times are predicted for if it can run on these.
Resolved resolved_on_nodes(const config::Invocation& invocation, int ranks, const std::optional<TimeModel>& times) {
  if (!times) return resolved(invocation, ranks);
  config::Invocation asked = invocation;
  int& on_node = asked.options.comm.ranks_per_node;
  on_node = times->cluster_of(ranks, on_node).ranks_per_node;
  try {
    return resolved(asked, ranks);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    return resolved(invocation, ranks);  // the row of its step time says why
  }
}

/// True if the plan depends on nodes that are not known: then all ranks are planned as one node.
bool guesses_nodes(const config::Options& asked, const config::Options& planned, int ranks) {
  const bool fit_on_one = ranks == 1 || ranks <= asked.comm.ranks_per_node;
  return planned.comm.ranks_per_node == 0 && !fit_on_one && depends_on_nodes(planned);
}

PlanReport report_of(config::Invocation& invocation) {
  PlanReport report;
  config::Options& o = invocation.options;
  report.limit = limit_of(invocation);
  const std::optional<TimeModel> times = time_model(invocation);
  std::string batch_replaced_for, guessed_for;
  std::map<std::string, std::string> dropped_for;  // ranks by option
  for (const int ranks : divisible(rank_counts(invocation.own<std::string>("ranks")), o.pipeline.size, report)) {
    auto [run, batch_replaced, dropped] = resolved_on_nodes(invocation, ranks, times);
    if (batch_replaced) add(batch_replaced_for, ranks);
    if (guesses_nodes(o, run.options, ranks)) add(guessed_for, ranks);
    for (const std::string& option : dropped) add(dropped_for[option], ranks);
    set_vocab_size(o);
    run.options.model.vocab_size = o.model.vocab_size;
    if (report.runs.empty()) report.notes.insert(report.notes.begin(), run.notes.begin(), run.notes.end());
    ParameterCounts parameters(run.options.model);
    for (const std::int64_t interval : {std::int64_t{0}, with_checkpointing(o)}) {
      for (int stage = 0; stage < static_cast<int>(zero::stages.size()); ++stage) {
        report.runs.push_back(plan_run(run.options, ranks, stage, interval, report.limit, parameters));
      }
    }
    if (times) {
      const std::vector<PredictedRun> predicted = predict(invocation, ranks, *times, report.limit);
      report.predicted.insert(report.predicted.end(), predicted.begin(), predicted.end());
    }
    const std::vector<DeepSpeedRow> rows = deepspeed_rows(run.options, ranks);
    report.deepspeed.insert(report.deepspeed.end(), rows.begin(), rows.end());
  }
  if (!batch_replaced_for.empty()) {
    report.notes.push_back(text("batch.global = ", o.batch.global, " cannot be divided into equal micro-batches among ",
                                batch_replaced_for, " ranks: planned there with batch.global = batch.micro x ranks"));
  }
  for (const auto& [option, dropped_ranks] : dropped_for) {
    report.notes.push_back(text(option, " does not divide ", dropped_ranks, " ranks: planned there without it"));
  }
  if (!guessed_for.empty()) report.notes.push_back(text(guessed_for, " ranks: ", unknown_nodes));
  report.deck = invocation.deck.empty() ? "default options" : invocation.deck;
  report.dtype = name_of(o.train.dtype);
  report.reduce_dtype = name_of(o.comm.reduce_dtype);
  report.optimizer = name_of(o.optimizer.kind);
  report.parameters = ParameterCounts(o.model).with(o.model.n_layer);
  report.n_layer = o.model.n_layer;
  if (times) {
    report.time_source = times->source;
    report.arithmetic = times->step_seconds > 0 ? "as given" : "at the training speed measured there";
  }
  return report;
}

Exit plan_memory(comm::World& world, config::Invocation& invocation) {
  on_rank_0(world.all(), [&] {
    if (trace_out(invocation, limit_of(invocation))) return;
    const std::filesystem::path json = invocation.own<std::string>("json");
    require_result("--json ", json, own_plan(), invocation.options.output.overwrite);
    const PlanReport report = report_of(invocation);
    if (!json.empty()) write_plan_json(report, json);
    print_plan_report(report);
  });
  return Exit::done;
}

}  // namespace

Command plan_command() {
  using config::any;
  using config::not_empty;
  std::vector<config::CommandSpec::Own> own = {
      {"ranks", std::string("1,2,4,...,64"), "", not_empty().as("a list, in which dots stand for doubling"),
       "numbers of ranks to plan for, as 1,2,6 or 1,2,4,...,1024"},
      {"memory", std::string{}, "", any().as("a size with its unit, as 24GiB or 80GB"),
       "memory of a rank: adds the largest number of layers that fits; default: memory.limit, if set"},
      {"json", std::string{}, "", any().as("the path of a new file"),
       "write all numbers in bytes, with every buffer and DeepSpeed's estimates with offload"}};
  const auto times = time_options();
  own.insert(own.end(), times.begin(), times.end());
  const auto traces = trace_out_options();
  own.insert(own.end(), traces.begin(), traces.end());
  return {{.name = "plan",
           .summary = "predict memory per rank and time per step, without training",
           .arguments = {"[DECK]"},
           .checks = false,
           .own = own},
          plan_memory,
          true};
}

}  // namespace shoal::app
