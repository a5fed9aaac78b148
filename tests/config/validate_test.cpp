// SPDX-License-Identifier: Apache-2.0
// The options that validate() fills in and accepts. Those that it refuses are in tests/refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shoal/base/error.hpp"
#include "shoal/config/deck.hpp"
#include "shoal/config/located.hpp"
#include "shoal/config/options.hpp"

namespace shoal::config {
namespace of_validate_test {

Options validated(std::string_view deck, int ranks, bool dry_run = false) {
  Deck read = parse_deck_text(deck, "a.cfg");
  EXPECT_THAT(read.problems, testing::IsEmpty());
  Invocation invocation;
  invocation.options = read.options;
  invocation.places = read.places;
  invocation.dry_run = dry_run;
  validate(invocation, ranks);
  return invocation.options;
}

TEST(Validate, TheGlobalBatchFollowsTheRanks) {
  EXPECT_EQ(validated("batch.micro = 3", 4).batch.global, 12U);
  EXPECT_EQ(validated("batch.micro = 3\nbatch.global = 24", 4).batch.global, 24U);
}

TEST(Validate, TheScheduleTakesTheStepsOfTheRunIfItNeedsThem) {
  EXPECT_EQ(validated("train.steps = 40\nschedule.kind = cosine", 1).schedule.total_steps, 40U);
  EXPECT_EQ(validated("train.steps = 40\nschedule.kind = cosine\nschedule.total_steps = 90", 1).schedule.total_steps, 90U);
  EXPECT_EQ(validated("train.steps = 40", 1).schedule.total_steps, 0U);
}

TEST(Validate, WhatItFilledInCanBeReadBack) {
  for (const char* const kind :
       {"constant", "linear", "cosine", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle"}) {
    const std::string first = print(validated("schedule.kind = " + std::string(kind), 2));
    EXPECT_EQ(print(validated(first, 2)), first) << kind;
  }
}

TEST(Validate, ACheckOfADeckDoesNotMindFeaturesThatAreNotBuilt) {
  EXPECT_NO_THROW(validated("zero.tile_linear = 2", 1, true));
}

TEST(Validate, OptionsOfAnotherKindMayKeepTheirDefaults) {
  EXPECT_NO_THROW(validated("optimizer.kind = sgd\noptimizer.beta1 = 0.9\noptimizer.momentum = 0.5", 1));
}

TEST(Validate, AChainOfDependenciesMayBeKept) {
  EXPECT_NO_THROW(validated("train.dtype = fp16\ntrain.loss_scale_window = 50", 1));
  EXPECT_NO_THROW(validated("train.dtype = fp16\ntrain.loss_scale = 128", 1));
  EXPECT_NO_THROW(validated("zero.stage = 3\nzero.persist_below = 1000", 1));
  EXPECT_EQ(validated("activation.checkpoint_interval = auto", 1).activation.checkpoint_interval, -1);
}

TEST(Validate, SeveralOptionsMayUseABlock) {
  const std::string block = "\nzero.quant_block = 64";
  EXPECT_NO_THROW(validated("zero.stage = 3\nzero.qwz = 8" + block, 2));
  EXPECT_NO_THROW(validated("zero.stage = 2\nzero.qgz = 4\nzero.quant_rounding = deepspeed" + block, 2));
  EXPECT_NO_THROW(validated("sync.kind = diloco\nsync.average_dtype = int8" + block, 2));
}

TEST(Validate, OnlyWhatWasSetIsRefusedBecauseItHasNoEffect) {
  Invocation invocation;  // as of a checkpoint, of whose run only some options matter
  invocation.options.zero.quant_block = 64;
  EXPECT_NO_THROW(validate(invocation, 1));
  invocation.places.set("zero.quant_block", "command line");
  EXPECT_THROW(validate(invocation, 1), Error);
}

TEST(Validate, OptionsOfSchedulesHaveAnEffectOrTheirDefaults) {
  EXPECT_NO_THROW(validated("schedule.kind = WarmupLR\noptimizer.lr = 0.01", 1));
  EXPECT_NO_THROW(validated("schedule.kind = WarmupCosineLR\noptimizer.lr = 0.01\noptimizer.beta1 = 0.8", 1));
  EXPECT_NO_THROW(validated("schedule.kind = OneCycle\nschedule.cycle_momentum = false\noptimizer.beta1 = 0.8", 1));
  EXPECT_NO_THROW(validated("schedule.kind = OneCycle\noptimizer.kind = sgd\nschedule.cycle_max_lr = 0.01", 1));
  EXPECT_NO_THROW(validated(
      "schedule.kind = OneCycle\noptimizer.kind = sgd\nschedule.decay_lr_rate = 0.5\nschedule.decay_step_size = 5", 1));
  EXPECT_NO_THROW(validated("schedule.kind = OneCycle\noptimizer.lr = 0.001\noptimizer.beta2 = 0.95", 1));
}

TEST(Validate, TheBetaOfOneCycleStaysBelowOneUntilTheEnd) {
  const std::string deck =
      "schedule.kind = OneCycle\nschedule.cycle_first_step_size = 10\nschedule.decay_step_size = 1\n"
      "schedule.decay_mom_rate = 0.1\ntrain.steps = ";
  EXPECT_NO_THROW(validated(deck + "22", 1));      // 0.9 x 1.1
  EXPECT_THROW(validated(deck + "23", 1), Error);  // 0.9 x 1.2
  EXPECT_NO_THROW(validated(deck + "4294967295\nschedule.cycle_min_mom = 0\nschedule.cycle_max_mom = 0", 1));
}

TEST(Validate, SlowMoWithoutMomentumIsItsBase) {
  const std::string slowmo = "sync.kind = slowmo\nsync.slowmo_momentum = 0\n";
  EXPECT_NO_THROW(validated(slowmo + "sync.slowmo_frequency = 6\nsync.average_dtype = bf16", 2));
  EXPECT_NO_THROW(validated(slowmo + "sync.slowmo_base = sgp", 2));
  EXPECT_NO_THROW(validated(slowmo + "sync.slowmo_base = sgp\nsync.slowmo_lr = 0.7\nsync.slowmo_frequency = 6", 2));
}

std::vector<std::string> notes(std::string_view deck, int ranks) {
  Invocation invocation;
  invocation.options = parse_deck_text(deck, "a.cfg").options;
  invocation.dry_run = true;
  validate(invocation, ranks);
  return invocation.notes;
}

TEST(Validate, TheRanksOfAPipelineShareTheirBatch) {
  EXPECT_EQ(validated("model.tied = false\nbatch.micro = 3\npipeline.size = 2", 8, true).batch.global, 12U);
  EXPECT_NO_THROW(validated(
      "model.tied = false\nbatch.micro = 3\nbatch.global = 24\npipeline.size = 4\npipeline.balance = 1,1,1,1", 8, true));
}

TEST(Validate, APipelineOfFewMicroBatchesIsWarnedOf) {
  const std::string deck = "model.tied = false\nbatch.micro = 2\npipeline.size = 4\nbatch.global = ";
  EXPECT_THAT(
      notes(deck + "8", 8),
      testing::ElementsAre(
          "pipeline.size = 4 is more than the number of micro-batches per step and pipeline (2): each rank is idle for at "
          "least 60 % of a step; with batch.global = 16 for 43 %, with batch.global = 64 for 16 %"));
  EXPECT_THAT(notes(deck + "16", 8), testing::IsEmpty());
  EXPECT_THAT(notes("batch.micro = 2", 8), testing::IsEmpty());
}

TEST(Validate, TheVocabularyMayStillBeOpen) { EXPECT_EQ(validated("", 1).model.vocab_size, 0U); }

TEST(Places, StandInFrontAndBehindValues) {
  Places places;
  places.set("model.n_embd", "a.cfg:3");
  places.set("model.n_head", "a.cfg:4");
  places.set("batch.micro", "command line");
  EXPECT_EQ(located("model.n_embd = 32 is not a multiple of model.n_head = 3; nearest: 30, 33", places),
            "a.cfg:3: model.n_embd = 32 is not a multiple of model.n_head = 3 [line 4]; nearest: 30, 33");
  EXPECT_EQ(located("batch.micro = 2: see model.n_head", places),
            "command line: batch.micro = 2: see model.n_head [a.cfg:4]");
  EXPECT_EQ(located("train.steps (5) and batch.micro (3): no", places),
            "command line: train.steps (5) and batch.micro (3): no");
  EXPECT_EQ(located("train.steps = 5", places), "train.steps = 5");
  EXPECT_EQ(located("model.n_embd and model.n_head (", places), "a.cfg:3: model.n_embd and model.n_head ( [line 4]");
  EXPECT_EQ(located("", places), "");
}

}  // namespace of_validate_test
}  // namespace shoal::config
