// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"

namespace shoal::plan {
namespace of_fit_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

zero::EngineOptions options() {
  zero::EngineOptions o;
  o.model = {.n_layer = 12, .n_head = 2, .n_embd = 64, .block_size = 64, .vocab_size = 64, .init_from = ""};
  o.capacity = {.sequences = 4, .length = 64};
  o.micro_batches = 4;
  o.gradients.bucket_elements = 4096;
  return o;
}

zero::EngineOptions with(int stage, std::int64_t checkpoint_interval, std::size_t micro = 4) {
  zero::EngineOptions o = options();
  o.zero.stage = stage;
  o.capacity.checkpoint_interval = checkpoint_interval;
  o.capacity.sequences = micro;
  o.micro_batches = 4 * 4 / micro;
  return o;
}

std::size_t needed(const zero::EngineOptions& o, int ranks) { return memory(o, 0, ranks).bytes.total(); }

/// Returns the part of the error text that advises a change, with its bytes.
std::string advice(const std::string& problem) {
  const std::string mark = "the cheapest way to make it fit: ";
  const auto at = problem.find(mark);
  return at == std::string::npos ? "" : problem.substr(at + mark.size());
}

std::string advice_for(const zero::EngineOptions& wanted, int ranks, const std::string& changes) {
  return changes + ": " + bytes_text(needed(wanted, ranks));
}

TEST(MemoryProblem, IsEmptyIfTheRunFits) {
  const std::size_t bytes = needed(options(), 2);
  EXPECT_THAT(memory_problem(options(), 2, bytes), IsEmpty());
  EXPECT_THAT(memory_problem(options(), 2, bytes - 1), Not(IsEmpty()));
}

/// Takes memory beside the engine, as a copy for asynchronous checkpoints does.
ExtraAllocations taking(std::size_t floats) {
  return [=](zero::Engine&, Memory& counting) { counting.take<float>(Kind::buffers, floats, "beside the engine"); };
}

TEST(MemoryProblem, CountsWhatIsTakenBesideTheEngine) {
  constexpr std::size_t floats = 1U << 20U, extra = floats * sizeof(float);
  const std::size_t bytes = memory(options(), 0, 2, taking(floats)).bytes.total();
  ASSERT_EQ(bytes, needed(options(), 2) + extra);
  EXPECT_THAT(memory_problem(options(), 2, bytes, taking(floats)), IsEmpty());
  const std::string problem = memory_problem(options(), 2, bytes - 1, taking(floats));
  EXPECT_THAT(problem, HasSubstr("needs " + bytes_text(bytes) + " per rank"));
  EXPECT_THAT(problem, HasSubstr("beside the engine " + bytes_text(extra)));
  const std::size_t sharded = needed(with(1, 0), 2) + extra;
  EXPECT_EQ(advice(memory_problem(options(), 2, sharded, taking(floats))), "zero.stage = 1: " + bytes_text(sharded));
  EXPECT_THAT(advice(memory_problem(options(), 2, sharded - 1, taking(floats))), Not(HasSubstr("zero.stage = 1: ")));
}

TEST(MaxLayers, LeaveRoomForWhatIsTakenBesideTheEngine) {
  constexpr std::size_t floats = 1U << 20U, extra = floats * sizeof(float);
  const std::size_t limit = needed(options(), 2);
  EXPECT_EQ(max_layers_that_fit(options(), 2, limit + extra, taking(floats)), max_layers_that_fit(options(), 2, limit));
  EXPECT_LT(max_layers_that_fit(options(), 2, limit + extra - 1, taking(floats)), options().model.n_layer);
}

TEST(MemoryProblem, NamesTheLargestParts) {
  const MemoryPlan plan = memory(options(), 0, 2);
  const std::string problem = memory_problem(options(), 2, 1000000);
  EXPECT_THAT(problem, HasSubstr("needs " + bytes_text(plan.bytes.total()) + " per rank, and a rank may take 977 KiB"));
  EXPECT_THAT(problem, HasSubstr("largest: " + plan.parts.front().label + " " + bytes_text(plan.parts.front().bytes)));
}

// Each limit is the memory that the next change needs, or one byte less.
TEST(MemoryProblem, AdvisesTheCheapestChangeThatIsEnough) {
  const auto advised = [&](std::size_t limit) { return advice(memory_problem(options(), 2, limit)); };
  const std::string interval = "activation.checkpoint_interval = ";
  std::size_t limit = needed(with(1, 0), 2);
  EXPECT_EQ(advised(limit), advice_for(with(1, 0), 2, "zero.stage = 1"));
  ASSERT_LT(needed(with(0, 6), 2), limit) << "otherwise the limits below test something else";
  EXPECT_EQ(advised(limit - 1), advice_for(with(0, 6), 2, interval + "6")) << "half of the blocks are recomputed";
  limit = needed(with(0, 6), 2);
  EXPECT_EQ(advised(limit - 1), advice_for(with(0, -1), 2, interval + "auto"));
  limit = needed(with(0, -1), 2);
  ASSERT_LT(needed(with(0, 1), 2), limit)
      << "keeping the input of each of 12 blocks takes less than segments of three blocks";
  EXPECT_EQ(advised(limit - 1), advice_for(with(0, 1), 2, interval + "1"));
  limit = needed(with(0, 1), 2);
  EXPECT_EQ(advised(limit - 1), advice_for(with(1, -1), 2, "zero.stage = 1, " + interval + "auto"));
  limit = needed(with(2, 1), 2);
  EXPECT_EQ(advised(limit), advice_for(with(2, 1), 2, "zero.stage = 2, " + interval + "1"));
  EXPECT_EQ(advised(limit - 1),
            advice_for(with(1, 1), 4, "zero.stage = 1, " + interval + "1, 4 ranks, no more of them on a node"));
}

// Which change needs the least memory depends on the kernels of the processor. The limit is one byte less than that.
TEST(MemoryProblem, AdvisesNoNodesThatWouldTrainLocally) {
  std::size_t least = needed(options(), 2);
  for (const int stage : {0, 1, 2, 3}) {
    for (const std::int64_t interval : {-1, 1}) {
      for (const std::size_t micro : {1, 2, 4}) least = std::min(least, needed(with(stage, interval, micro), 2));
    }
  }
  const auto advised = [&](MoreNodes more) { return advice(memory_problem(options(), 2, least - 1, {}, more)); };
  EXPECT_THAT(advised(MoreNodes::shard_further), AllOf(HasSubstr("4 ranks"), Not(HasSubstr("even"))));
  EXPECT_THAT(advised(MoreNodes::train_locally),
              AllOf(HasSubstr("a smaller model, or fewer ranks per node: even "), HasSubstr(" needs " + bytes_text(least))));
}

TEST(MemoryProblem, AdvisesAnotherIntervalThanTheOneThatIsNotEnough) {
  const zero::EngineOptions automatic = with(0, -1);
  EXPECT_EQ(advice(memory_problem(automatic, 1, needed(with(0, 1), 1))),
            advice_for(with(0, 1), 1, "activation.checkpoint_interval = 1"));
}

/// The sizes of inputs/gpt2_124m.cfg on one rank. Only interval 1 needs no more than the limit.
TEST(MemoryProblem, AdvisesWhatNeedsLeastForGpt2) {
  zero::EngineOptions gpt2;
  gpt2.model = {.n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50257, .init_from = ""};
  gpt2.capacity = {.sequences = 4, .length = 1024};
  gpt2.micro_batches = 1;
  zero::EngineOptions least = gpt2, automatic = gpt2;
  least.capacity.checkpoint_interval = 1;
  automatic.capacity.checkpoint_interval = -1;
  const std::size_t limit = needed(least, 1);
  ASSERT_LT(limit, needed(automatic, 1));
  EXPECT_EQ(advice(memory_problem(gpt2, 1, limit)), advice_for(least, 1, "activation.checkpoint_interval = 1"));
  EXPECT_THAT(advice(memory_problem(gpt2, 1, limit / 16)),
              HasSubstr("even zero.stage = 3, activation.checkpoint_interval = 1, batch.micro = 1, 4 ranks"));
}

// A model whose activations take most of the memory.
TEST(MemoryProblem, OnOneRankAdvisesNoSharding) {
  zero::EngineOptions alone = options();
  alone.model.n_layer = 2;
  alone.model.n_embd = 32;
  alone.capacity.sequences = 64;
  alone.micro_batches = 1;  // which more ranks cannot divide
  zero::EngineOptions recomputing = alone;
  recomputing.capacity.checkpoint_interval = -1;
  EXPECT_EQ(advice(memory_problem(alone, 1, needed(recomputing, 1))),
            advice_for(recomputing, 1, "activation.checkpoint_interval = auto"))
      << "for 2 blocks auto means 1";
  zero::EngineOptions smaller = recomputing;
  smaller.capacity.sequences = 16;
  smaller.micro_batches = 4;
  EXPECT_EQ(advice(memory_problem(recomputing, 1, needed(smaller, 1))), advice_for(smaller, 1, "batch.micro = 16"));
}

TEST(MemoryProblem, SaysIfNoChangeHelps) {
  EXPECT_THAT(advice(memory_problem(options(), 2, 1000)), HasSubstr("a smaller model, or fewer ranks per node: even "));
  zero::EngineOptions evaluating = options();
  evaluating.capacity.training = false;
  EXPECT_EQ(advice(memory_problem(evaluating, 2, 1000)), "a smaller model, or fewer ranks per node");
}

TEST(MaxLayers, FitAndOneMoreDoesNot) {
  for (const std::int64_t interval : {0, -1, 2}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const std::size_t layers : {1, 2, 5, 6, 7, 19, 60}) {
        zero::EngineOptions o = with(stage, interval);
        o.model.n_layer = layers;
        const std::size_t limit = needed(o, 2);
        o.model.n_layer = 6;  // the search starts from it
        const std::size_t found = max_layers_that_fit(o, 2, limit);
        EXPECT_GE(found, layers) << "stage " << stage << ", interval " << interval;
        o.model.n_layer = found;
        EXPECT_LE(needed(o, 2), limit) << "stage " << stage << ", interval " << interval << ", " << layers;
        o.model.n_layer = found + 1;
        EXPECT_GT(needed(o, 2), limit) << "stage " << stage << ", interval " << interval << ", " << layers;
      }
    }
  }
}

TEST(MaxLayers, HaveBounds) {
  EXPECT_EQ(max_layers_that_fit(options(), 2, 1000), 0U);
  EXPECT_EQ(max_layers_that_fit(options(), 2, std::size_t{1} << 50U), most_layers);
}

}  // namespace of_fit_test
}  // namespace shoal::plan
