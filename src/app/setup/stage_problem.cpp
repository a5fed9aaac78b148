// SPDX-License-Identifier: Apache-2.0
// What to change if a stage of a pipeline does not fit into memory.
#include <algorithm>
#include <utility>

#include "app/setup/extra_memory.hpp"
#include "app/setup/stage_memory.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/plan/fit.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

/// Options that need less memory, with a description, the cheapest change first.
using Changes = std::vector<std::pair<config::Options, std::string>>;

std::string joined(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : ", ") + other;
}

/// Balances are not in the descriptions. A balance, 1f1b and stage 1 cost nothing; recomputed activations up to a third of
/// the arithmetic; stages 2 and 3 send gradients and parameters for each micro-batch; smaller micro-batches are slower and
/// change the order of sums.
Changes cheaper(const config::Options& options, const RankLayout& division) {
  Changes changes;
  config::Options all = options;
  std::string others;  // of all changes but that of the stage of ZeRO
  const auto add_one = [&](const std::string& description, const auto& change) {
    config::Options changed = options;
    change(changed);
    changes.emplace_back(changed, description);
    change(all);
  };
  const auto add = [&](const std::string& description, const auto& change) {
    add_one(description, change);
    others = joined(others, description);
  };
  const auto of_all = [&] {
    return joined(all.zero.stage == options.zero.stage ? "" : text("zero.stage = ", all.zero.stage), others);
  };
  if (options.pipeline.balance != "auto") add("", [](auto& o) { o.pipeline.balance = "auto"; });
  if (options.pipeline.schedule == pipeline::Schedule::gpipe && options.pipeline.parts == 1) {
    add("pipeline.schedule = 1f1b", [](auto& o) { o.pipeline.schedule = pipeline::Schedule::one_f_one_b; });
  }
  const bool shards = division.ranks > 1;
  if (shards && !zero::stage_of(options.zero).shards_optimizer) {
    add_one("zero.stage = 1", [](auto& o) { o.zero.stage = 1; });
  }
  if (options.pipeline.checkpoint != pipeline::Checkpoint::always) {
    add("pipeline.checkpoint = always", [](auto& o) { o.pipeline.checkpoint = pipeline::Checkpoint::always; });
  }
  if (changes.size() > 1) changes.emplace_back(all, of_all());
  for (int stage = std::max(2, options.zero.stage + 1); shards && stage < static_cast<int>(zero::stages.size()); ++stage) {
    all.zero.stage = stage;
    changes.emplace_back(all, of_all());
  }
  for (std::size_t micro = options.batch.micro - 1; micro > 0; --micro) {
    if (options.batch.micro % micro != 0) continue;
    all.batch.micro = micro;
    changes.emplace_back(all, joined(of_all(), text("batch.micro = ", micro)));
  }
  return changes;
}

}  // namespace

std::string memory_problem(const PlannedStages& planned, const config::Options& options, const RankLayout& division,
                           Purpose purpose, std::size_t limit) {
  if (planned.bytes() <= limit) return {};
  if (planned.memory.size() == 1) {
    return plan::memory_problem(
        planned.engine_of(0), division.sync_group_size, limit, extra_allocations(options, division, planned.stages, purpose),
        sync::trains_locally(options.sync) ? plan::MoreNodes::train_locally : plan::MoreNodes::shard_further);
  }
  std::string problem =
      text("stage ", planned.largest, " of the pipeline: ", plan::excess_text(planned.memory[planned.largest], limit),
           "; the cheapest way to make it fit: ");
  std::size_t least = planned.bytes();
  std::string least_description;
  if (purpose == Purpose::train) {
    for (const auto& [changed, description] : cheaper(options, division)) {
      const PlannedStages then = plan_stages(changed, division, purpose, limit);
      std::string named = description;
      if (options.pipeline.balance != changed.pipeline.balance) {
        named = joined("pipeline.balance = " + then.balance, named);
      }
      if (then.bytes() <= limit) return problem + text(named, ": ", bytes_text(then.bytes()));
      if (then.bytes() >= least) continue;
      least = then.bytes();
      least_description = named;
    }
  }
  problem += "a smaller model, more stages, or fewer ranks per node";
  if (!least_description.empty()) problem += text(": even ", least_description, " needs ", bytes_text(least));
  return problem;
}

}  // namespace shoal::app
