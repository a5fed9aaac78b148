// SPDX-License-Identifier: Apache-2.0
// Samples and weights have the bits of plain loops. A unit of 3 ranks lies behind another one in each rank's part of the
// weights.
#include "shoal/kernels/sample.hpp"

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_sample_test {

constexpr std::size_t sizes[] = {1, 255, 256, 257, 3000, 256 * 1024, 300'001};
constexpr std::size_t ranks = 3, offset = 5;
constexpr double correction = 0.19, epsilon = 1e-3;

struct Unit {
  explicit Unit(std::size_t elements) : granules((elements + granule - 1) / granule) {
    const std::size_t slots = (granules + ranks - 1) / ranks;
    sample = {.elements = elements, .updates = 7, .slots = slots, .offset = offset, .stride = offset + slots + 2};
  }
  Range shard(std::size_t rank) const {
    const std::size_t length = sample.slots * granule;
    return {std::min(sample.elements, rank * length), std::min(sample.elements, (rank + 1) * length)};
  }
  std::size_t element(std::size_t g) const {
    const std::size_t begin = g * granule, length = std::min(granule, sample.elements - begin);
    const auto draw = static_cast<std::uint32_t>(g * 2654435769U + sample.updates * 2246822519U);
    return begin + static_cast<std::size_t>(static_cast<std::uint64_t>(draw) * length >> 32U);
  }
  std::size_t position(std::size_t g) const { return g / sample.slots * sample.stride + offset + g % sample.slots; }
  /// An array of weights with these for the unit's granules, and -1 elsewhere.
  std::vector<float> weights(const std::vector<float>& of_granules) const {
    std::vector<float> all(ranks * sample.stride, -1.0F);
    for (std::size_t g = 0; g < granules; ++g) all[position(g)] = of_granules[g];
    return all;
  }

  Sample sample{};
  std::size_t granules;
};

TEST(Sample, IsDrawnFromEachShard) {
  for (const std::size_t elements : sizes) {
    const Unit unit(elements);
    const auto values = numbers(elements, 1);
    std::vector<float> drawn(ranks * unit.sample.stride, -1.0F), want(unit.granules);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range shard = unit.shard(rank);
      draw_sample(unit.sample, shard, values.data() + shard.begin, &drawn[rank * unit.sample.stride + offset]);
    }
    for (std::size_t g = 0; g < unit.granules; ++g) want[g] = values[unit.element(g)];
    EXPECT_EQ(drawn, unit.weights(want)) << elements;
  }
}

TEST(Sample, WeightsAreThoseOfAPlainLoop) {
  for (const std::size_t elements : sizes) {
    const Unit unit(elements);
    std::vector<float> moments = numbers(unit.granules, 2, 0.0F, 1.0F), want(unit.granules);
    for (std::size_t g = 1; g < unit.granules; g += 3) moments[g] = 0;  // counts as a thousandth of the mean
    double mean = 0;
    std::vector<double> got_mean = {-1.0};
    for (const float v : moments) mean += static_cast<double>(v) / static_cast<double>(unit.granules);
    for (std::size_t g = 0; g < unit.granules; ++g) {
      const double divisor = std::sqrt(std::max(static_cast<double>(moments[g]), 1e-3 * mean) / correction) + epsilon;
      want[g] = static_cast<float>(1 / (divisor * divisor));
    }
    std::vector<float> weights = unit.weights(moments);
    weigh_sample(unit.sample, correction, epsilon, got_mean.data(), weights.data());
    EXPECT_EQ(got_mean[0], mean) << elements;
    EXPECT_EQ(weights, unit.weights(want)) << elements;
  }
}

TEST(Sample, WithoutMomentsHasNoWeight) {
  const Unit unit(3000);
  const std::vector<float> none(unit.granules, 0.0F);
  std::vector<float> weights = unit.weights(none);
  std::vector<double> mean = {-1.0};
  weigh_sample(unit.sample, correction, 0.0, mean.data(), weights.data());
  EXPECT_EQ(weights, unit.weights(none));
}

template <typename T>
class SampleOf : public testing::Test {};
TYPED_TEST_SUITE(SampleOf, StorageTypes);

TYPED_TEST(SampleOf, SquaresAreThoseOfAPlainLoop) {
  for (const std::size_t elements : sizes) {
    const Unit unit(elements);
    const auto values = numbers<TypeParam>(elements, 3);
    const auto of_granules = numbers(unit.granules, 4, 0.0F, 100.0F);
    const auto weights = unit.weights(of_granules);
    for (const std::size_t first : {std::size_t{0}, unit.granules / 2}) {
      const std::size_t count = unit.granules - first;
      std::vector<double> squares(count), want(count);
      weighted_squares(unit.sample, weights.data(), first, count, dtype_of<TypeParam>, &values[first * granule],
                       squares.data());
      for (std::size_t i = 0; i < count; ++i) {
        const double value = static_cast<float>(values[unit.element(first + i)]);
        want[i] = static_cast<double>(of_granules[first + i]) * value * value;
      }
      EXPECT_EQ(squares, want) << elements;
    }
  }
}

TEST(Sample, OfAnEmptyUnitIsEmpty) {
  const Sample empty{.elements = 0, .updates = 7, .slots = 0, .offset = 1, .stride = 2};
  std::vector<float> weight = {3.0F};
  std::vector<double> mean = {-1.0}, square = {4.0};
  draw_sample(empty, {0, 0}, nullptr, weight.data());
  weigh_sample(empty, correction, epsilon, mean.data(), weight.data());
  weighted_squares(empty, weight.data(), 0, 0, DType::bf16, nullptr, square.data());
  EXPECT_EQ(weight[0], 3);
  EXPECT_EQ(square[0], 4);
}

}  // namespace of_sample_test
}  // namespace shoal::kernels::test
