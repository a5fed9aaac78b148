// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says of its run: losses and tokens, the best evaluation, and the rows that a person reads. Files of
// older programs say less, and those of strangers anything.
#include "app/checkpoint/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "app/checkpoint/checkpoint_state.hpp"
#include "app/checkpoint/checkpoint_text.hpp"

namespace shoal::app {
namespace of_progress_test {

using testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Progress, TheLowestLossIsTheBest) {
  Progress progress;
  EXPECT_TRUE(progress.evaluated({10, 2.5}));
  EXPECT_FALSE(progress.evaluated({20, 2.5})) << "the first of equals";
  EXPECT_FALSE(progress.evaluated({30, nan}));
  EXPECT_TRUE(progress.evaluated({40, 2.25}));
  EXPECT_FALSE(progress.evaluated({50, 3}));
  EXPECT_EQ(progress.best->step, 40);
  EXPECT_EQ(progress.validation->step, 50);
}

TEST(Progress, IsNumbersAndBack) {
  Progress progress{.tokens = 12345, .training = 0.1, .validation = {}, .best = {}};
  progress.evaluated({7, 0.3});
  progress.evaluated({9, 0.7});
  const Progress again = progress_of(numbers_of(progress));
  EXPECT_EQ(again.tokens, 12345);
  EXPECT_EQ(again.training, 0.1);
  EXPECT_EQ(again.validation->step, 9);
  EXPECT_EQ(again.validation->loss, 0.7);
  EXPECT_EQ(again.best->step, 7);
  EXPECT_EQ(again.best->loss, 0.3);
}

TEST(Progress, NumbersThatAreNoneAreLeftOut) {
  EXPECT_TRUE(numbers_of({}).empty());
  auto numbers = numbers_of({.tokens = 5, .training = {}, .validation = {}, .best = LossAt{3, 1.5}});
  for (auto& number : numbers) number.second = -1;
  const Progress strange = progress_of(numbers);
  EXPECT_FALSE(strange.tokens || strange.best);
  for (auto& number : numbers) number.second = 1e300;
  EXPECT_FALSE(progress_of(numbers).tokens);
  EXPECT_FALSE(progress_of({{"loss_scale/scale", 2}}).tokens) << "an older program's";
}

io::CheckpointContents contents_of(const config::Options& options) {
  io::CheckpointContents contents;
  contents.format_version = 1;
  contents.state.program = "shoal 0.1.0";
  contents.state = {.step = 60, .deck = config::print(options), .scalars = {}, .numbers = {}, .lineage = {}};
  contents.datasets = {{"/moments/first/a", {1000, 10}, 0, 0}, {"/parameters/a", {1000, 10}, 0, 0}};
  contents.file_bytes = 123456;
  return contents;
}

config::Options options_of_a_run() {
  config::Options options;
  options.model.vocab_size = 65;
  options.train.steps = 100;
  options.batch.global = 8;
  options.zero.stage = 3;
  options.pipeline.size = 2;
  options.output.dir = "elsewhere";
  return options;
}

std::string row(const TextRows& rows, const std::string& name) {
  for (const auto& [key, value] : rows) {
    if (key == name) return value;
  }
  return "no such row";
}

TEST(CheckpointRows, AreAboutFifteenAndSayWhatAPersonAsks) {
  io::CheckpointContents contents = contents_of(options_of_a_run());
  Progress progress{.tokens = 61440, .training = 2.5, .validation = {}, .best = {}};
  progress.evaluated({40, 2.25});
  progress.evaluated({60, 2.375});
  contents.state.numbers = numbers_of(progress);
  contents.state.scalars[ranks_text] = "4 ranks on 2 nodes";
  const TextRows rows = checkpoint_rows(contents, false);
  EXPECT_LE(rows.size(), 15U);
  EXPECT_EQ(row(rows, "parameters"), "10 000");
  EXPECT_EQ(row(rows, "step"), "60 of 100");
  EXPECT_EQ(row(rows, "tokens seen"), "61 440");
  EXPECT_EQ(row(rows, "loss"), "validation 2.3750 after step 60; lowest 2.2500 after step 40; training 2.5000");
  EXPECT_EQ(row(rows, "strategy"), "stage 3, pipeline.size = 2");
  EXPECT_EQ(row(rows, "ranks"), "4 ranks on 2 nodes");
  EXPECT_THAT(row(rows, "complete"), HasSubstr("yes, by its seal"));
  EXPECT_THAT(row(checkpoint_rows(contents, true), "complete"), HasSubstr("their checksums agree"));
}

TEST(CheckpointRows, OfAnOlderProgramLackWhatItDidNotWrite) {
  const TextRows rows = checkpoint_rows(contents_of(options_of_a_run()), false);
  EXPECT_EQ(row(rows, "tokens seen"), "61 440 (steps x batch; the file does not say)");
  EXPECT_EQ(row(rows, "loss"), "not in the file");
  EXPECT_EQ(row(rows, "ranks"), "no such row");
}

TEST(CheckpointRows, OptionsThatNobodyKnowsAreNoError) {
  io::CheckpointContents contents = contents_of(options_of_a_run());
  contents.state.deck = "[model]\nn_layers = 3\n";
  const TextRows rows = checkpoint_rows(contents, false);
  EXPECT_EQ(row(rows, "step"), "60");
  EXPECT_EQ(row(rows, "tokens seen"), "unknown");
  EXPECT_THAT(row(rows, "options"), HasSubstr("n_layers"));
}

TEST(CheckpointRows, NodesWithParametersOfTheirOwnAreCountedOnce) {
  io::CheckpointContents contents = contents_of(options_of_a_run());
  contents.datasets = {{"/nodes/0/parameters/a", {30, 10}, 0, 0}, {"/nodes/1/parameters/a", {30, 10}, 0, 0}};
  EXPECT_EQ(row(checkpoint_rows(contents, false), "parameters"), "300");
}

}  // namespace of_progress_test
}  // namespace shoal::app
