// SPDX-License-Identifier: Apache-2.0
// Contradictions between options of pipeline, and options that cannot be combined with pipelines.
#include <cmath>

#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"
#include "shoal/pipeline/balance.hpp"

namespace shoal::config {

using pipeline::PipelineOptions;

namespace {

bool is_set(const Row& row, const Options& o) { return value_text(row, o) != default_text(row); }

std::vector<std::string> idle_options(const Options& o) {
  std::vector<std::string> problems;
  for (const Row& row : table()) {
    if (section_of(row.name) != "pipeline" || !is_set(row, o)) continue;
    problems.push_back(text(row.name, " = ", value_text(row, o),
                            " has no effect with pipeline.size = 1; it needs pipeline.size ", "of at least 2"));
  }
  return problems;
}

/// "allowed: gpipe, interleaved".
std::string schedules_of_parts() {
  std::vector<std::string> names;
  for (const auto& row : pipeline::schedules) {
    if (row.several_stages && row.several_parts) names.emplace_back(row.name);
  }
  return "allowed: " + joined(names);
}

void find_part_problems(const Options& o, std::vector<std::string>& problems) {
  const PipelineOptions& p = o.pipeline;
  const auto parts = static_cast<std::size_t>(p.size) * static_cast<std::size_t>(p.parts), layers = o.model.n_layer;
  if (p.parts > 1 && !row_of(p.schedule).several_parts) {
    problems.push_back(text("pipeline.parts = ", p.parts, " cannot be combined with pipeline.schedule = ",
                            name_of(p.schedule), ", in which a stage has one part; ", schedules_of_parts()));
  }
  if (parts > layers) {
    problems.push_back(text("pipeline.size = ", p.size, " and pipeline.parts = ", p.parts, " make ", parts,
                            " parts, but model.n_layer = ", layers,
                            ": each part needs at least one layer; allowed: at most ", layers, " parts"));
    return;
  }
  const std::string problem = pipeline::read_balance(p.balance, parts, layers).problem;
  if (problem.empty()) return;
  problems.push_back(text("pipeline.balance = ", shown(p.balance), ": ", problem, "; allowed: auto, or ", parts,
                          " whole numbers of at least 1 that add up to model.n_layer (", layers, ")"));
}

void find_foreign_problems(const Options& o, std::vector<std::string>& problems) {
  const std::string refused = text("pipeline.size = ", o.pipeline.size, " cannot be combined with ");
  if (sync::trains_locally(o.sync)) {
    problems.push_back(text(refused, "sync.kind = ", name_of(o.sync.kind),
                            ": the stages of a pipeline train together at every step; allowed: every_step"));
  }
  if (o.model.kind == model::ModelKind::gpt && o.model.joins_gradients()) {
    problems.push_back(
        text("pipeline.size = ", o.pipeline.size,
             " needs model.tied_gradient = apart (or model.tied = false): embedding and head are on different ranks "
             "and add their gradients once per step; losses differ from those of joined in the last bits"));
  }
  if (o.adascale.on) {
    problems.push_back(text(refused,
                            "optimizer.adascale = true: it measures the gradient of each micro-batch as a whole; "
                            "allowed: false"));
  }
  const Row& params = *find("offload.params");
  if (is_set(params, o)) {
    problems.push_back(text(refused, params.name, " = ", value_text(params, o), "; allowed: ", default_text(params)));
  }
}

}  // namespace

std::vector<std::string> pipeline_problems(const Options& o, int ranks) {
  const PipelineOptions& p = o.pipeline;
  if (p.size == 1) return idle_options(o);
  std::vector<std::string> problems;
  find_part_problems(o, problems);
  find_foreign_problems(o, problems);
  if (ranks % p.size != 0) {
    problems.push_back(
        text("pipeline.size = ", p.size, " does not divide the number of ranks (", ranks, "); allowed: a divisor of it"));
    return problems;
  }
  const std::size_t of_one = o.batch.micro * static_cast<std::size_t>(data_ranks(o, ranks));
  const std::size_t turns = o.batch.global / of_one, stages = static_cast<std::size_t>(p.size);
  if (row_of(p.schedule).whole_groups && turns % stages != 0) {
    const std::size_t group = of_one * stages, below = o.batch.global / group * group;
    problems.push_back(
        text("pipeline.schedule = ", name_of(p.schedule), " needs a number of micro-batches per step and pipeline ",
             "that is a multiple of pipeline.size (", stages, "), but there are ", turns,
             ": batch.global = ", o.batch.global, "; nearest: ", below == 0 ? "" : text(below, ", "), below + group));
  }
  return problems;
}

void require_pipeline(const Options& o, int ranks) {
  const std::vector<std::string> problems = pipeline_problems(o, ranks);
  require_input(problems.empty(), problems.empty() ? "" : problems.front());
}

int data_ranks(const Options& o, int ranks) { return ranks % o.pipeline.size == 0 ? ranks / o.pipeline.size : ranks; }

std::string short_pipeline(const Options& o, int ranks) {
  const PipelineOptions& p = o.pipeline;
  const std::size_t of_one = o.batch.micro * static_cast<std::size_t>(data_ranks(o, ranks));
  const std::size_t turns = o.batch.global / of_one, stages = static_cast<std::size_t>(p.size);
  if (turns == 0 || turns >= stages) return {};
  const auto idle = [&](std::size_t count) {
    return std::lround(100 * pipeline::ideal_idle_share({p.size, 0, p.parts, count}));
  };
  return text("pipeline.size = ", stages, " is more than the number of micro-batches per step and pipeline (", turns,
              "): each rank is idle for at least ", idle(turns), " % of a step; with batch.global = ", of_one * stages,
              " for ", idle(stages), " %, with batch.global = ", 4 * of_one * stages, " for ", idle(4 * stages), " %");
}

}  // namespace shoal::config
