// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/philox.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace shoal {
namespace of_philox_test {

// Known answers for Philox-4x32-10, published with Random123 1.x (kat_vectors).
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t ones = 0xffffffffU;
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Philox4{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox(0xffffffffffffffffU, {ones, ones, ones, ones}),
            (Philox4{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox(0x299f31d0a4093822U, {0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}),
            (Philox4{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Philox, EachBitOfKeyAndCounterChangesTheResult) {
  std::set<Philox4> seen = {philox(0, {0, 0, 0, 0})};
  for (unsigned bit = 0; bit < 64; ++bit) EXPECT_TRUE(seen.insert(philox(std::uint64_t{1} << bit, {0, 0, 0, 0})).second);
  for (unsigned bit = 0; bit < 128; ++bit) {
    Philox4 counter{};
    counter[bit / 32] = 1U << bit % 32;
    EXPECT_TRUE(seen.insert(philox(0, counter)).second);
  }
}

TEST(Philox, UniformIsAboveZeroAndReachesOne) {
  EXPECT_EQ(uniform(0), 0x1p-24F);
  EXPECT_EQ(uniform(0xffU), 0x1p-24F);
  EXPECT_EQ(uniform(0x100U), 0x1p-23F);
  EXPECT_EQ(uniform(0x7fffffffU), 0.5F);
  EXPECT_EQ(uniform(0xffffffffU), 1.0F);
}

// A mean over n numbers must be within four standard deviations of the expected value.
TEST(Philox, UniformHasItsMoments) {
  constexpr std::uint32_t n = 1U << 16U;
  double sum = 0, squares = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double u = static_cast<double>(uniform(philox(1, {i, 0, 0, 0})[i % 4]));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / n));
}

TEST(BoxMuller, IsFiniteAtTheEnds) {
  constexpr std::uint32_t ones = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t a : {0U, ones}) {
    for (const std::uint32_t b : {0U, ones}) {
      for (const double x : box_muller(a, b)) EXPECT_TRUE(std::isfinite(x));
    }
  }
  EXPECT_NEAR(box_muller(0, 0)[0], std::sqrt(64 * std::log(2.0)), 1e-12);  // the largest possible value
  EXPECT_EQ(box_muller(ones, 0)[0], 0.0);
}

TEST(BoxMuller, HasTheMomentsOfTheNormalDistribution) {
  constexpr std::uint32_t n = 1U << 15U;
  double sum = 0, squares = 0, fourth = 0, product = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const Philox4 bits = philox(2, {i, 0, 0, 0});
    const auto [x, y] = box_muller(bits[0], bits[1]);
    sum += x + y;
    squares += x * x + y * y;
    fourth += x * x * x * x + y * y * y * y;
    product += x * y;
  }
  constexpr double numbers = 2.0 * n;
  EXPECT_NEAR(sum / numbers, 0.0, 4 * std::sqrt(1 / numbers));
  EXPECT_NEAR(squares / numbers, 1.0, 4 * std::sqrt(2 / numbers));
  EXPECT_NEAR(fourth / numbers, 3.0, 4 * std::sqrt(96 / numbers));
  EXPECT_NEAR(product / n, 0.0, 4 * std::sqrt(1.0 / n));
}

}  // namespace of_philox_test
}  // namespace shoal
