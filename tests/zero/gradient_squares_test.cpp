// SPDX-License-Identifier: Apache-2.0
// Squares of the gradients of micro-batches and of their sum: equal to plain loops up to rounding, and to those of one rank
// bit by bit.
#include "zero/gradient_squares.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "support/mpi_main.hpp"
#include "support/units.hpp"
#include "zero/gradients.hpp"

namespace shoal::zero {
namespace of_gradient_squares_test {

constexpr std::size_t micro_batches = 8;
constexpr std::uint64_t updates = 7;
constexpr double correction = 0.19, epsilon = 1e-3;

std::vector<model::UnitLayout> units() { return shoal::test::units_of({3000, 16, 1040}); }

std::vector<float> numbers(std::size_t unit, std::size_t elements, std::size_t seed) {
  std::mt19937 generator(static_cast<unsigned>(unit * 1000 + seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float& v : values) v = normal(generator);
  return values;
}

/// Second moments that differ much from granule to granule. They are zero in the last granule but one, and in all of unit 1:
/// no gradient has reached these.
std::vector<float> second_moments(std::size_t unit, std::size_t elements) {
  std::vector<float> values = numbers(unit, elements, 99);
  for (std::size_t i = 0; i < elements; ++i) {
    values[i] *= values[i] * std::exp(-static_cast<float>(i / granule));
    if (unit == 1 || i / granule + 2 == granule_count(elements)) values[i] = 0;
  }
  return values;
}

/// Weights by element: zero except for the sampled element of each granule. The unit's mean is over the sampled elements.
std::vector<double> weights(std::size_t unit, std::size_t elements) {
  const std::vector<float> second = second_moments(unit, elements);
  std::vector<double> result(elements, 0.0);
  std::vector<std::size_t> sample;
  for (std::size_t i = 0; i < granule_count(elements); ++i) {
    const std::size_t begin = i * granule, length = std::min(granule, elements - begin);
    const auto draw = static_cast<std::uint32_t>(i * 2654435769U + updates * 2246822519U);
    sample.push_back(begin + static_cast<std::size_t>(draw * 0x1p-32 * static_cast<double>(length)));
  }
  double mean = 0;
  for (const std::size_t e : sample) mean += static_cast<double>(second[e]) / static_cast<double>(sample.size());
  for (const std::size_t e : sample) {
    const double divisor = std::sqrt(std::max(static_cast<double>(second[e]), mean / 1000) / correction) + epsilon;
    if (mean > 0) result[e] = 1 / (divisor * divisor);
  }
  return result;
}

/// The squares by micro-batch, and that of their sum.
struct Measured {
  std::vector<double> micro = std::vector<double>(micro_batches, 0.0);
  double sum = 0;
  bool operator==(const Measured&) const = default;
};

Measured by_plain_loops(Squares squares) {
  Measured result;
  const auto layouts = units();
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const std::size_t elements = layouts[u].elements;
    const std::vector<double> counts =
        squares == Squares::weighted ? weights(u, elements) : std::vector<double>(elements, 1.0);
    std::vector<float> sum(elements, 0.0F);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      const std::vector<float> gradient = numbers(u, elements, m);
      for (std::size_t i = 0; i < elements; ++i) {
        result.micro[m] += counts[i] * static_cast<double>(gradient[i]) * gradient[i];
        sum[i] += gradient[i];
        if (m + 1 == micro_batches) result.sum += counts[i] * static_cast<double>(sum[i]) * sum[i];
      }
    }
  }
  return result;
}

Measured measured(Squares squares, int stage, const RankGroups& groups) {
  const auto layouts = units();
  const AccumulationPlan accumulation(micro_batches, groups.ranks,
                                      groups.ranks > 1 && stages[static_cast<std::size_t>(stage)].shards_gradients);
  ZeroOptions zero;
  zero.stage = stage;
  GradientOptions options;
  options.bucket_elements = 2048;
  options.squares = squares;
  const auto held = shard_layouts(layouts, zero, groups);
  Memory counting(device::images());
  const Gradients planned(layouts, held, sweep_of_all(layouts.size()), accumulation, {groups.rank, groups.ranks, nullptr},
                          options, counting);
  device::DeviceMemory memory(counting.taken());
  Gradients gradients(layouts, held, sweep_of_all(layouts.size()), accumulation, groups, options, memory);
  EXPECT_EQ(memory.taken(), counting.taken());
  std::vector<std::vector<float>> second;
  for (std::size_t u = 0; u < layouts.size(); ++u) {
    const std::vector<float> whole = second_moments(u, layouts[u].elements);
    second.emplace_back(whole.begin() + static_cast<std::ptrdiff_t>(held[u].shard.begin),
                        whole.begin() + static_cast<std::ptrdiff_t>(held[u].shard.end));
  }
  if (squares == Squares::weighted) {
    const auto shard = [&](int unit) -> Span<const float> { return second[static_cast<std::size_t>(unit)]; };
    gradients.weights().resample(updates, shard, correction, epsilon);
  }
  Measured result;
  for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
    const std::size_t m = accumulation.micro_batch_of_turn(turn, groups.rank);
    for (int u = static_cast<int>(layouts.size()) - 1; u >= 0; --u) {
      const auto values = numbers(static_cast<std::size_t>(u), layouts[static_cast<std::size_t>(u)].elements, m);
      std::copy(values.begin(), values.end(), gradients.of(u));
      gradients.complete(u);
    }
  }
  gradients.finish_step();
  gradients.start_gather();
  gradients.measure_norm();
  device::wait_for_queue();
  for (std::size_t turn = 0; turn < accumulation.turns(); ++turn) {
    result.micro[accumulation.micro_batch_of_turn(turn, groups.rank)] = gradients.square_of_turn(turn);
  }
  const Norm norm = gradients.norm();
  gradients.wait_for_gather();
  if (squares != Squares::weighted) {
    EXPECT_NEAR(norm.square, norm.value * norm.value, 1e-12 * norm.square);
  }
  result.sum = norm.square;
  if (groups.ranks > 1) groups.group->all_reduce(Span<double>(result.micro), comm::Reduce::sum).wait();
  return result;
}

TEST(GradientSquares, AreTheSameBitsInEveryStageAndOnAnyNumberOfRanks) {
  comm::Communicator& group = shoal::test::world().all();
  for (const Squares squares : {Squares::plain, Squares::weighted}) {
    const Measured alone = measured(squares, 0, {0, 1, nullptr});
    const Measured exact = by_plain_loops(squares);
    for (std::size_t m = 0; m < micro_batches; ++m) EXPECT_NEAR(alone.micro[m], exact.micro[m], 1e-6 * exact.micro[m]);
    EXPECT_NEAR(alone.sum, exact.sum, 1e-6 * exact.sum);  // gradients are added in float
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_TRUE(measured(squares, stage, {group.rank(), group.size(), &group}) == alone) << "stage " << stage;
    }
  }
}

/// The mean of 4096 squares of normally distributed numbers is within 5 / sqrt(4096 / 2) of 1, at any update.
TEST(SampledWeights, RepresentAllElements) {
  constexpr std::size_t elements = 4096 * granule;
  std::vector<float> second = numbers(0, elements, 1), gradient = numbers(0, elements, 2);
  for (std::size_t i = 0; i < elements; ++i) {
    second[i] = std::exp(second[i]);
    gradient[i] *= std::sqrt(second[i]);
  }
  ShardLayout whole;
  whole.elements = elements;
  whole.shard = {0, elements};
  Memory counting(device::images());
  const SampledWeights planned({whole}, {}, counting);
  device::DeviceMemory memory(counting.taken());
  SampledWeights weights({whole}, {}, memory);
  std::vector<double> squares(4096);
  double before = 0;
  for (const std::uint64_t update : {1, 2, 1000}) {
    weights.resample(
        update, [&](int) -> Span<const float> { return second; }, 1.0, 0.0);
    weights.square(0, 0, DType::f32, gradient.data(), squares);
    const double mean = std::accumulate(squares.begin(), squares.end(), 0.0) / 4096;
    EXPECT_NEAR(mean, 1, 0.11) << update;
    EXPECT_NE(mean, before) << "another sample";
    before = mean;
  }
}

TEST(GradientSquares, AreZeroIfNothingIsMeasured) {
  comm::Communicator& group = shoal::test::world().all();
  const Measured none = measured(Squares::none, 1, {group.rank(), group.size(), &group});
  EXPECT_EQ(none.micro, std::vector<double>(micro_batches, 0.0));
}

}  // namespace of_gradient_squares_test
}  // namespace shoal::zero
