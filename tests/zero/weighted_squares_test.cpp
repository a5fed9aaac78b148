// SPDX-License-Identifier: Apache-2.0
// The weights of AdaScale's squares are those of Adam's corrected second moments: with a gradient g that is the same in
// every step, they are those of g^2 after any number of updates.
#include <algorithm>
#include <numeric>

#include "engine_harness.hpp"
#include "shoal/device/cells.hpp"
#include "small_gpt.hpp"
#include "zero/sampled_weights.hpp"

namespace shoal::zero::test {
namespace of_weighted_squares_test {

constexpr double beta2 = 0.95;

/// One micro-batch in a step, without dropout.
EngineOptions options() {
  EngineOptions o = small_gpt(0);
  o.model.dropout = 0;
  o.gradients.squares = Squares::weighted;
  o.grad_clip = 0;
  return o;
}

using Gradient = std::vector<std::vector<float>>;  // by unit

/// A step with a learning rate of zero, so that the next one has the same gradient. Returns the gradient.
Gradient step(EngineOfAll& engine, std::int64_t number) {
  const Tokens tokens(5);
  engine->forward(0, 0, {sequences, length, tokens.inputs, tokens.targets, 0, 0});
  engine->backward(0, 0);
  engine->finish_gradients();
  Gradient gradient;
  for (std::size_t u = 0; u < engine->units().size(); ++u) {
    const std::size_t elements = engine->units()[u].elements;
    const Span<std::byte> bytes = engine->gradient_shard(static_cast<int>(u), {0, elements});
    const auto* const values = reinterpret_cast<const float*>(bytes.data());
    gradient.emplace_back(values, values + elements);
  }
  engine->start_gradient_gather();
  engine->measure();
  engine->update(engine->norm(), {number, 0.0, 0.9, beta2, 1.0F});
  engine->publish();
  return gradient;
}

/// The sum of weighted squares if the second moments are the gradient's squares, and need no correction.
double with_moments_of(const Gradient& gradient, std::uint64_t updates) {
  std::vector<ShardLayout> layouts(gradient.size());
  Gradient squares = gradient;
  for (std::size_t u = 0; u < gradient.size(); ++u) {
    layouts[u].elements = gradient[u].size();
    layouts[u].shard = {0, gradient[u].size()};
    for (float& g : squares[u]) g *= g;
  }
  Memory counting(device::images());
  const SampledWeights planned(layouts, {}, counting);
  device::DeviceMemory memory(counting.taken());
  SampledWeights weights(layouts, {}, memory);
  const auto moments = [&](int unit) -> Span<const float> { return squares[static_cast<std::size_t>(unit)]; };
  weights.resample(updates, moments, 1.0, options().optimizer.epsilon);
  double sum = 0;
  for (std::size_t u = 0; u < gradient.size(); ++u) {
    std::vector<double> by_granule(granule_count(gradient[u].size()));
    weights.square(static_cast<int>(u), 0, DType::f32, gradient[u].data(), by_granule);
    device::wait_for_queue();
    sum += std::accumulate(by_granule.begin(), by_granule.end(), 0.0);
  }
  return sum;
}

/// Each second moment is rounded to fp32 in every step, by at most 2^-24 of it, and a weight by twice that.
TEST(WeightedSquares, AreThoseOfTheCorrectedSecondMoments) {
  EngineOfAll engine(options());
  engine->initialize(3);
  const Gradient gradient = step(engine, 1);
  for (std::int64_t updates = 1; updates <= 10; ++updates) {
    engine->weigh_squares(updates, beta2);
    ASSERT_TRUE(step(engine, updates + 1) == gradient);
    const double expected = with_moments_of(gradient, static_cast<std::uint64_t>(updates));
    ASSERT_GT(expected, 1);
    EXPECT_NEAR(engine->square_of_turn(0), expected, 1e-5 * expected) << "after " << updates << " updates";
  }
}

}  // namespace of_weighted_squares_test
}  // namespace shoal::zero::test
