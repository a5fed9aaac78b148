// SPDX-License-Identifier: Apache-2.0
// Gradients that are averaged over several groups of ranks, as nodes do in the warm-up of local training: each group has its
// part of the mean, so that the sum over the groups is the gradient of one group that has computed everything.
#include "engine_harness.hpp"
#include "small_gpt.hpp"

namespace shoal::zero::test {
namespace of_gradient_groups_test {

constexpr std::size_t micro_batches = 4;

/// This rank's shards of the gradient, unit after unit, of `count` micro-batches from `first` on, over all ranks.
std::vector<float> gradient(int stage, std::size_t groups, std::size_t first, std::size_t count) {
  EngineOptions options = small_gpt(stage);
  options.micro_batches = count;
  EngineOfAll engine(options);
  engine->initialize(3);
  engine->set_gradient_groups(groups);
  const AccumulationPlan& accumulation = engine->accumulation();
  for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
    const std::size_t m = first + accumulation.micro_batch_of_turn(turn, EngineOfAll::world().rank());
    const Tokens tokens(31 * m);
    engine->forward(0, turn,
                    {sequences, length, tokens.inputs, tokens.targets, 0, static_cast<std::uint32_t>(m * sequences)});
    engine->backward(0, turn);
  }
  engine->finish_gradients();
  std::vector<float> all;
  for (std::size_t u = 0; u < engine->units().size(); ++u) {
    const Range shard = engine->states().layout(static_cast<int>(u)).shard;
    const Span<std::byte> bytes = engine->gradient_shard(static_cast<int>(u), shard);
    const auto* const values = reinterpret_cast<const float*>(bytes.data());
    all.insert(all.end(), values, values + shard.size());
  }
  engine->start_gradient_gather();
  engine->measure();
  EXPECT_GT(engine->norm().value, 0);
  engine->discard_gradients();
  return all;
}

class GradientGroups : public testing::TestWithParam<int> {};

/// Powers of two, so that the divisions are exact.
TEST_P(GradientGroups, EachHaveTheirPartOfTheMean) {
  const std::vector<float> of_one = gradient(GetParam(), 1, 0, micro_batches);
  for (const std::size_t groups : {2U, 4U}) {
    std::vector<float> expected = of_one;
    for (float& g : expected) g /= static_cast<float>(groups);
    EXPECT_TRUE(gradient(GetParam(), groups, 0, micro_batches) == expected) << groups << " groups";
  }
}

/// Both add the same numbers in the same tree.
TEST_P(GradientGroups, SumToTheGradientOfOneThatComputesEverything) {
  std::vector<float> sum = gradient(GetParam(), 2, 0, micro_batches / 2);
  const std::vector<float> second = gradient(GetParam(), 2, micro_batches / 2, micro_batches / 2);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
  EXPECT_TRUE(sum == gradient(GetParam(), 1, 0, micro_batches));
}

INSTANTIATE_TEST_SUITE_P(Stages, GradientGroups, testing::Values(0, 2));

}  // namespace of_gradient_groups_test
}  // namespace shoal::zero::test
