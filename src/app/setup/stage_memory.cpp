// SPDX-License-Identifier: Apache-2.0
#include "app/setup/stage_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "app/setup/engine_options.hpp"
#include "app/setup/extra_memory.hpp"
#include "app/setup/simulated_step.hpp"

namespace shoal::app {

namespace {

/// Plans stages of one run whose parts may still change.
class Stages {
 public:
  Stages(const config::Options& options, const RankLayout& division, Purpose purpose)
      : options_(options),
        division_(division),
        purpose_(purpose),
        engine_(engine_options(options, division, purpose)),
        turns_(turns_of(engine_, division)) {}

  const zero::EngineOptions& engine() const { return engine_; }
  std::size_t turns() const { return turns_; }
  StagePlan cut(const config::Options& options, std::size_t stage) const {
    return stage_plan(options, static_cast<int>(stage), turns_, purpose_ == Purpose::train);
  }
  /// stages.shape: of the stage.
  plan::MemoryPlan memory(const StagePlan& stages) const {
    return plan::memory(with_parts(engine_, stages), 0, division_.sync_group_size,
                        extra_allocations(options_, division_, stages, purpose_));
  }

 private:
  const config::Options& options_;
  const RankLayout& division_;
  Purpose purpose_;
  zero::EngineOptions engine_;
  std::size_t turns_;
};

std::string text_of(const pipeline::Balance& balance) {
  std::string all;
  for (const std::size_t layers : balance) all += (all.empty() ? "" : ",") + std::to_string(layers);
  return all;
}

config::Options with(config::Options options, const pipeline::Balance& balance) {
  options.pipeline.balance = text_of(balance);
  return options;
}

/// Whether layers fit into the memory of the stage of a part. If they do not, more do not either, so it is enough to know
/// how many do: found by bisection, once for each part, or for each part and first layer if layers differ.
class FittingParts {
 public:
  FittingParts(const Stages& stages, const config::Options& options, std::size_t limit)
      : stages_(stages), limit_(limit), layers_(options.model.n_layer), parts_(parts_of_model(options)) {
    for (int stage = 0; stage < options.pipeline.size; ++stage) {
      cuts_.push_back(stages.cut(with(options, balance_of(options)), static_cast<std::size_t>(stage)));
    }
    const auto units = model::layout(options.model);
    units_ = units.size();
    equal_layers_ = std::all_of(units.begin() + 1, units.begin() + static_cast<std::ptrdiff_t>(layers_) + 1,
                                [&](const auto& unit) { return unit.elements == units[1].elements; });
  }

  bool operator()(std::size_t part, Range blocks) {
    const std::size_t first = equal_layers_ ? first_of(part, 1) : blocks.begin;
    const auto [known, is_new] = most_.try_emplace({part, first}, 0);
    if (is_new) known->second = most(part, first);
    return blocks.size() <= known->second;
  }

 private:
  static std::size_t parts_of_model(const config::Options& options) {
    return static_cast<std::size_t>(options.pipeline.size) * static_cast<std::size_t>(options.pipeline.parts);
  }
  /// A first layer of `count` layers of this part, where all layers are equal.
  std::size_t first_of(std::size_t part, std::size_t count) const {
    if (part == 0) return 0;
    return part + 1 == parts_ ? layers_ - count : std::min<std::size_t>(1, layers_ - count);
  }

  std::size_t most(std::size_t part, std::size_t first) const {
    const std::size_t all = equal_layers_ ? layers_ : layers_ - first;
    if (!equal_layers_ && part + 1 == parts_) return fit(part, first, all) ? all : 0;  // it ends with the last layer
    std::size_t fits = 0, too_many = all + 1;
    while (fits + 1 < too_many) {
      const std::size_t middle = (fits + too_many) / 2;
      (fit(part, first, middle) ? fits : too_many) = middle;
    }
    return fits;
  }

  bool fit(std::size_t part, std::size_t first, std::size_t count) const {
    StagePlan cut = cuts_[part % cuts_.size()];
    std::vector<model::Part>& own = cut.parts[part % cuts_.size()];
    if (own.size() * count > layers_) return false;
    for (std::size_t k = 0; k < own.size(); ++k) {
      const std::size_t m = k * cuts_.size() + part % cuts_.size();
      std::size_t begin = equal_layers_ ? first_of(part, count) : first;
      if (own.size() > 1) begin = m == 0 ? 0 : m + 1 == parts_ ? layers_ - count : k * count;
      own[k].units = {begin + (m == 0 ? 0 : 1), m + 1 == parts_ ? units_ : begin + count + 1};  // unit 0 is the embedding
    }
    return stages_.memory(cut).bytes.total() <= limit_;
  }

  const Stages& stages_;
  std::size_t limit_, layers_, parts_, units_ = 0;
  bool equal_layers_ = false;
  std::vector<StagePlan> cuts_;                                      // by stage; a part's layers are replaced
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> most_;  // by part and first layer: the most that fit
};

std::vector<plan::MemoryPlan> memory_of_all(const Stages& stages, const config::Options& options) {
  std::vector<plan::MemoryPlan> all;
  for (std::size_t s = 0; s < static_cast<std::size_t>(options.pipeline.size); ++s) {
    all.push_back(stages.memory(stages.cut(options, s)));
  }
  return all;
}

std::size_t largest_of(const std::vector<plan::MemoryPlan>& memory) {
  const auto most = std::max_element(memory.begin(), memory.end(), [](const auto& one, const auto& other) {
    return one.bytes.total() < other.bytes.total();
  });
  return static_cast<std::size_t>(most - memory.begin());
}

}  // namespace

zero::EngineOptions PlannedStages::engine_of(std::size_t stage) const { return with_parts(engine, stages, stage); }

config::Options with_balance(const config::Options& options, const RankLayout& division, Purpose purpose,
                             const std::optional<std::size_t>& limit) {
  if (options.pipeline.size == 1 || options.pipeline.balance != "auto") return options;
  const Stages stages(options, division, purpose);
  const auto fits = [&](const pipeline::Balance& cut) {
    if (!limit) return true;
    const auto memory = memory_of_all(stages, with(options, cut));
    return memory[largest_of(memory)].bytes.total() <= *limit;
  };
  pipeline::Balance cut = balance_of(options);
  bool fit = fits(cut);
  if (!fit) {
    FittingParts parts(stages, options, *limit);
    const auto found = balance_of(options, [&](std::size_t part, Range blocks) { return parts(part, blocks); });
    if (found && fits(*found)) {
      cut = *found;
      fit = true;
    }
  }
  if (options.pipeline.parts > 1 && purpose == Purpose::train) {
    const SimulatedStep step(options, stages.turns());
    cut = pipeline::shortened(
        cut, step, [&](const pipeline::Balance& moved) { return !fit || fits(moved); }, step.most_calls());
  }
  return with(options, cut);
}

PlannedStages plan_stages(const config::Options& options, const RankLayout& division, Purpose purpose,
                          const std::optional<std::size_t>& limit) {
  const config::Options cut = with_balance(options, division, purpose, limit);
  const Stages stages(cut, division, purpose);
  PlannedStages planned;
  planned.engine = stages.engine();
  planned.memory = memory_of_all(stages, cut);
  planned.largest = largest_of(planned.memory);
  planned.stages = stages.cut(cut, planned.largest);
  planned.balance = cut.pipeline.balance;
  return planned;
}

}  // namespace shoal::app
