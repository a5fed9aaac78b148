// SPDX-License-Identifier: Apache-2.0
// The latency-bandwidth model: fits, what a tree costs by it, and the transfers of a step.
#include "shoal/plan/network.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "shoal/plan/step_time.hpp"

namespace shoal::plan {
namespace {

TEST(Fit, FindsTheLineThatMadeTheSamples) {
  std::vector<Sample> samples;
  for (double bytes = 256; bytes < 1e8; bytes *= 4) samples.push_back({bytes, 20e-6 + 0.5e-9 * bytes});
  const Line line = fit(samples).value();
  EXPECT_NEAR(line.latency_s, 20e-6, 1e-12);
  EXPECT_NEAR(line.s_per_byte, 0.5e-9, 1e-16);
  EXPECT_LT(worst_deviation(line, samples), 1e-6);
  samples.back().seconds *= 2;
  EXPECT_NEAR(worst_deviation(line, samples), 0.5, 1e-6);
}

/// A token bucket of 256 KiB before a link of 100 Mbit/s.
TEST(Fit, IsNotMisledByBuffers) {
  std::vector<Sample> samples;
  for (double bytes = 256; bytes < 2e7; bytes *= 4) {
    samples.push_back({bytes, 100e-6 + std::max(1e-9 * bytes, (bytes - 262144) * 80e-9)});
  }
  const Line line = fit(samples).value();
  EXPECT_NEAR(line.s_per_byte, 80e-9, 0.02 * 80e-9);
  EXPECT_NEAR(line.latency_s, 100e-6, 50e-6);
}

TEST(Fit, IsNeverNegative) {
  const Line falling = fit({{1, 2e-6}, {1000, 1e-6}}).value();
  EXPECT_EQ(falling.s_per_byte, 0);
  const Line below_zero = fit({{1e3, 1e-9}, {1e6, 1e-3}}).value();
  EXPECT_EQ(below_zero.latency_s, 0);
  EXPECT_GT(below_zero.s_per_byte, 0);
  EXPECT_FALSE(fit({{1000, 1e-3}}).has_value());
  EXPECT_FALSE(fit({{1000, 1e-3}, {1000, 2e-3}}).has_value());
}

NetworkModel two_levels() {
  NetworkModel model;
  model.ranks_per_node = 2;
  model.node = Link{1e-6, 1e-10};
  model.across = Link{10e-6, 1e-8};
  model.sum_s_per_byte = 2e-11;
  return model;
}

TEST(TreeSeconds, AreTheStepsWithinNodesAndAcrossThem) {
  const double bytes = 12e6;
  // 3 nodes x 2 ranks: half goes to the neighbour, then of the other half two thirds across, in one exchange with each.
  EXPECT_NEAR(tree_gather_seconds(two_levels(), {3, 2}, bytes), 1e-6 + 6e6 * 1e-10 + 10e-6 + 4e6 * 1e-8, 1e-12);
  EXPECT_NEAR(tree_reduce_seconds(two_levels(), {3, 2}, bytes) - tree_gather_seconds(two_levels(), {3, 2}, bytes),
              10e6 * 2e-11, 1e-12);
  // With one rank a node the link is one rank's alone.
  EXPECT_NEAR(tree_gather_seconds(two_levels(), {4, 1}, bytes), 2 * 10e-6 + 9e6 * 0.5e-8, 1e-12);
  EXPECT_EQ(tree_gather_seconds(two_levels(), {1, 1}, bytes), 0);
}

TEST(LinkRate, IsSharedByTheRanksOfANodeAndPaysForFrames) {
  const NetworkModel model = with_link_rate(two_levels(), 1e9);
  EXPECT_NEAR(tree_gather_seconds(model, {2, 2}, 8e6) - 1e-6 - 4e6 * 1e-10 - 10e-6, 2 * 2e6 * 8 / (1e9 * useful_share),
              1e-9);
}

TEST(Lacking, NamesWhatWasNotMeasured) {
  NetworkModel model = two_levels();
  EXPECT_EQ(std::string(lacking(model, {4, 2})), "");
  model.node.reset();
  EXPECT_NE(std::string(lacking(model, {4, 2})), "");
  EXPECT_EQ(std::string(lacking(model, {4, 1})), "");
  model.across.reset();
  EXPECT_NE(std::string(lacking(model, {4, 1})).find("--link-rate"), std::string::npos);
}

zero::EngineOptions some_options(int stage) {
  zero::EngineOptions options;
  options.model.n_layer = options.model.n_head = 2;
  options.model.n_embd = 32;
  options.model.block_size = 16;
  options.model.vocab_size = 64;
  options.capacity.sequences = 1;
  options.capacity.length = 16;
  options.zero.stage = stage;
  options.micro_batches = 8;
  options.gradients.message_elements = 10'000;
  return options;
}

std::size_t bytes_of(const zero::EngineOptions& options, Transfer::Kind kind) {
  std::size_t bytes = 0;
  for (const Transfer& t : transfers(options, 4)) {
    if (t.kind == kind) bytes += t.times * std::accumulate(t.blocks.begin(), t.blocks.end(), std::size_t{0});
  }
  return bytes;
}

/// ZeRO's volumes (Rajbhandari et al. 2020, section 7), with accumulation: 8 micro-batches on 4 ranks are 2 turns.
TEST(Transfers, AreThoseOfTheStages) {
  std::size_t parameters = 0;
  for (const auto& unit : model::layout(some_options(0).model)) parameters += unit.elements;
  const std::size_t bytes = parameters * sizeof(float);
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_EQ(bytes_of(some_options(stage), Transfer::Kind::reduce_scatter), stage < 2 ? bytes : 2 * bytes) << stage;
    const std::size_t gathered = bytes_of(some_options(stage), Transfer::Kind::all_gather);
    if (stage < 3) {
      EXPECT_EQ(gathered, bytes) << stage;
    } else {  // forward and backward of each turn; what backward needs first is still there
      EXPECT_GT(gathered, 2 * bytes);
      EXPECT_LE(gathered, 4 * bytes);
    }
  }
  EXPECT_TRUE(transfers(some_options(3), 1).empty());
}

TEST(StepTimeOf, NothingHidesWithoutOverlap) {
  zero::EngineOptions options = some_options(1);
  options.gradients.overlap = false;
  const StepTime all = step_time(options, {2, 2}, two_levels(), 1);
  EXPECT_EQ(all.exposed_s, all.communication_s);
  EXPECT_EQ(all.total_s(), 1 + all.communication_s);
  options.gradients.overlap = true;
  EXPECT_EQ(step_time(options, {2, 2}, two_levels(), 1).exposed_s, 0) << "a second of arithmetic hides it all";
  EXPECT_EQ(step_time(options, {2, 2}, two_levels(), 0).exposed_s, all.communication_s) << "and none hides nothing";
}

}  // namespace
}  // namespace shoal::plan
