// SPDX-License-Identifier: Apache-2.0
// pipeline.balance = auto under a memory limit, compared with all cuts of a small model.
#include "app/setup/stage_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "app/setup/simulated_step.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::app {
namespace of_stage_memory_test {

using pipeline::Balance;

config::Options small(model::ModelKind kind, int stages) {
  config::Options options;
  options.model.kind = kind;
  options.model.tied = false;
  options.model.n_layer = 5;
  options.model.n_head = 2;
  options.model.n_embd = 16;
  options.model.block_size = 8;
  options.model.vocab_size = 512;  // the ends of the model need memory
  options.batch.micro = 4;
  options.batch.global = 32;
  options.pipeline.size = stages;
  return options;
}

std::string text_of(const Balance& balance) {
  std::string all;
  for (const std::size_t layers : balance) all += (all.empty() ? "" : ",") + std::to_string(layers);
  return all;
}

std::vector<Balance> all_cuts(std::size_t layers, std::size_t parts) {
  if (parts == 1) return {{layers}};
  std::vector<Balance> cuts;
  for (std::size_t first = 1; first + parts - 1 <= layers; ++first) {
    for (Balance rest : all_cuts(layers - first, parts - 1)) {
      rest.insert(rest.begin(), first);
      cuts.push_back(rest);
    }
  }
  return cuts;
}

/// The largest cost of a part, of which auto finds the least.
double cost_of(const config::Options& options, const Balance& balance) {
  const auto units = model::costs(options.model, options.train.dtype, {});
  double largest = 0;
  for (const Range& part : pipeline::units_of(balance)) {
    double sum = 0;
    for (std::size_t u = part.begin; u < part.end; ++u) sum += units[u].flops();
    largest = std::max(largest, sum);
  }
  return largest;
}

std::size_t bytes_of(config::Options options, const Balance& balance, const RankLayout& division) {
  options.pipeline.balance = text_of(balance);
  return plan_stages(options, division, Purpose::train, std::nullopt).bytes();
}

TEST(BalanceUnderALimit, IsTheBestOfAllCutsThatFit) {
  for (const auto kind : {model::ModelKind::gpt, model::ModelKind::mlp}) {
    for (const int stages : {2, 3}) {
      const config::Options options = small(kind, stages);
      const RankLayout division = divide(options, 2 * stages, 2 * stages);
      struct Cut {
        Balance balance;
        std::size_t bytes;
      };
      std::vector<Cut> cuts;
      for (const Balance& balance : all_cuts(options.model.n_layer, static_cast<std::size_t>(stages))) {
        cuts.push_back({balance, bytes_of(options, balance, division)});
      }
      for (const Cut& largest : cuts) {
        for (const std::size_t limit : {largest.bytes, largest.bytes - 1}) {
          double best = -1, fastest = -1;
          for (const Cut& cut : cuts) {
            const double cost = cost_of(options, cut.balance);
            if (fastest < 0 || cost < fastest) fastest = cost;
            if (cut.bytes <= limit && (best < 0 || cost < best)) best = cost;
          }
          const config::Options found = with_balance(options, division, Purpose::train, limit);
          const Balance balance =
              *pipeline::read_balance(found.pipeline.balance, static_cast<std::size_t>(stages), options.model.n_layer)
                   .balance;
          EXPECT_EQ(cost_of(options, balance), best < 0 ? fastest : best) << found.pipeline.balance << ", limit " << limit;
          EXPECT_TRUE(best < 0 || bytes_of(options, balance, division) <= limit) << found.pipeline.balance;
        }
      }
    }
  }
}

/// gpipe on two stages with 2 and 3 layers, 8 turns. The second stage is never idle in between; the first one fills the
/// pipeline and ends the step. The head's backward pass belongs to its forward pass.
TEST(SimulatedStep, IsThatByHand) {
  config::Options options = small(model::ModelKind::gpt, 2);
  options.pipeline.schedule = pipeline::Schedule::gpipe;
  const auto units = model::costs(options.model, options.train.dtype, {});
  const double forward = units[1].forward_flops, backward = units[1].backward_flops, head = units.back().flops();
  EXPECT_GT(head, 0);
  const double step = 2 * forward + 8 * (3 * forward + head) + 8 * 3 * backward + 2 * backward;
  EXPECT_DOUBLE_EQ(SimulatedStep(options, 8)({2, 3}), step);
  options.pipeline.checkpoint = pipeline::Checkpoint::always;
  // Nothing needs the output of the last layer of a segment again, and a segment is the part.
  const double repeated = units[1].repeated_flops;
  EXPECT_LT(repeated, forward);
  EXPECT_DOUBLE_EQ(SimulatedStep(options, 8)({2, 3}), step + 8 * (2 * forward + repeated) + forward + repeated);
  options.activation.checkpoint_interval = 2;
  EXPECT_DOUBLE_EQ(SimulatedStep(options, 8)({2, 3}), step + 8 * (forward + 2 * repeated) + forward + repeated);
  options.pipeline.checkpoint = pipeline::Checkpoint::never;
  EXPECT_DOUBLE_EQ(SimulatedStep(options, 8)({2, 3}), step + 8 * repeated) << "all but the last segment";
  EXPECT_GT(SimulatedStep(options, 8).most_calls(), 1000U);
  options.pipeline.size = 4;
  EXPECT_GT(SimulatedStep(options, 100000).most_calls(), 100U) << "a step of many turns is simulated with fewer";
}

/// Two parts per stage, and a head that costs as much as several layers.
TEST(BalanceOfSeveralParts, ShortensTheSimulatedStep) {
  config::Options options = small(model::ModelKind::gpt, 2);
  options.model.n_layer = 12;
  options.model.n_embd = 32;
  options.pipeline.schedule = pipeline::Schedule::interleaved;
  options.pipeline.parts = 2;
  const RankLayout division = divide(options, 2, 2);
  const SimulatedStep step(options, 8);
  const auto cut = [&](const std::optional<std::size_t>& limit) {
    return *pipeline::read_balance(with_balance(options, division, Purpose::train, limit).pipeline.balance, 4, 12).balance;
  };
  const Balance begin = balance_of(options), found = cut(std::nullopt);
  EXPECT_LT(step(found), 0.97 * step(begin));
  EXPECT_EQ(cut(std::nullopt), found);
  const std::size_t begin_bytes = bytes_of(options, begin, division), bytes = bytes_of(options, found, division);
  ASSERT_GT(bytes, begin_bytes) << "a case in which memory decides";
  EXPECT_EQ(cut(bytes), found);
  for (const std::size_t limit : {bytes - 1, (bytes + begin_bytes) / 2, begin_bytes}) {
    EXPECT_LE(bytes_of(options, cut(limit), division), limit);
    EXPECT_LE(step(cut(limit)), step(begin));
  }
  EXPECT_EQ(pipeline::read_balance(with_balance(options, division, Purpose::evaluate, std::nullopt).pipeline.balance, 4, 12)
                .balance,
            begin);
}

TEST(PlannedStages, HaveTheBytesOfTheLargest) {
  config::Options options = small(model::ModelKind::gpt, 2);
  const RankLayout division = divide(options, 2, 2);
  for (const std::size_t first : {1U, 4U}) {
    options.pipeline.balance = text_of({first, 5 - first});
    EXPECT_EQ(plan_stages(options, division, Purpose::train, std::nullopt).largest, first == 1 ? 1U : 0U);
  }
  options.pipeline.balance = "auto";
  const PlannedStages planned = plan_stages(options, division, Purpose::train, std::nullopt);
  ASSERT_EQ(planned.memory.size(), 2U);
  EXPECT_EQ(planned.bytes(), std::max(planned.memory[0].bytes.total(), planned.memory[1].bytes.total()));
  EXPECT_EQ(planned.stages.shape.stage, static_cast<int>(planned.largest));
  EXPECT_TRUE(memory_problem(planned, options, division, Purpose::train, planned.bytes()).empty());
  const std::string problem = memory_problem(planned, options, division, Purpose::train, planned.bytes() - 1);
  EXPECT_NE(problem.find("pipeline.checkpoint = always"), std::string::npos) << problem;
}

/// A run without pipelines is planned as one stage, and its text names changes of its own.
TEST(PlannedStages, AreOneWithoutPipelines) {
  const config::Options options = small(model::ModelKind::gpt, 1);
  const RankLayout division = divide(options, 2, 2);
  const PlannedStages planned = plan_stages(options, division, Purpose::train, std::nullopt);
  ASSERT_EQ(planned.memory.size(), 1U);
  EXPECT_TRUE(planned.engine_of(0).parts.empty());
  EXPECT_TRUE(memory_problem(planned, options, division, Purpose::train, planned.bytes()).empty());
  const std::string problem = memory_problem(planned, options, division, Purpose::train, planned.bytes() - 1);
  EXPECT_EQ(problem.rfind("the run needs ", 0), 0U) << problem;
  EXPECT_NE(problem.find("activation.checkpoint_interval"), std::string::npos) << problem;
}

/// The first of 8 stages keeps the activations of most turns, so it gets fewer of 96 layers.
TEST(BalanceUnderALimit, IsFoundForManyLayers) {
  config::Options options = small(model::ModelKind::gpt, 8);
  options.model.n_layer = 96;
  options.batch.global = 512;
  const RankLayout division = divide(options, 8, 8);
  const std::size_t free = plan_stages(options, division, Purpose::train, std::nullopt).bytes();
  const config::Options cut = with_balance(options, division, Purpose::train, free - 1);
  EXPECT_LT(plan_stages(cut, division, Purpose::train, std::nullopt).bytes(), free);
}

}  // namespace of_stage_memory_test
}  // namespace shoal::app
