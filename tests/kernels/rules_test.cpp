// SPDX-License-Identifier: Apache-2.0
// The functions of kernels/rules on single floats. simd_test compares vectors with these.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/rules/functions.hpp"
#include "kernels/rules/row_sums.hpp"

namespace shoal::kernels::rules {
namespace of_rules_test {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::numeric_limits<float>::quiet_NaN();

struct Exp {
  static float of(float x) { return exp(x); }
  static double exact(double x) { return std::exp(x); }
};
struct Log {
  static float of(float x) { return log(x); }
  static double exact(double x) { return std::log(x); }
};
struct RoughExp2 {
  static float of(float x) { return rough_exp2(x); }
  static double exact(double x) { return std::exp2(x); }
};

/// The largest error, in units of the last place of the exact result, of every stride-th float from the one with the bits
/// `from` to the one with the bits `to`.
template <class Function>
double worst_error(std::uint32_t from, std::uint32_t to, std::uint32_t stride) {
  double worst = 0;
  for (std::uint64_t bits = from; bits < to; bits += stride) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double exact = Function::exact(x);
    if (std::abs(exact) > std::numeric_limits<float>::max() || exact == 0) continue;
    const double place = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(Function::of(x)) - exact) / place);
  }
  return worst;
}

TEST(Rules, ExpIsWithinOneUlp) {
  EXPECT_LT(worst_error<Exp>(0, std::bit_cast<std::uint32_t>(88.7228F), 611), 1.0);
  EXPECT_LT(worst_error<Exp>(0x80000000U, std::bit_cast<std::uint32_t>(-104.0F), 611), 1.0);
}

// A relative error e is e 2^23 to e 2^24 units of the last place.
TEST(Rules, RoughFunctionsSufficeForHalves) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  EXPECT_LT(worst_error<RoughExp2>(0, bits(127.99F), 611), 0x1p24 * 0x1p-18);
  EXPECT_LT(worst_error<RoughExp2>(bits(-0.0F), bits(-126.0F), 611), 0x1p24 * 0x1p-18);
}

TEST(Rules, RoughFunctionsAtTheEnds) {
  EXPECT_EQ(RoughExp2::of(-infinity), 0.0F);
  EXPECT_EQ(RoughExp2::of(-1e30F), 0.0F);
  EXPECT_EQ(RoughExp2::of(infinity), infinity);
  EXPECT_EQ(RoughExp2::of(128.1F), infinity);
  EXPECT_TRUE(std::isnan(RoughExp2::of(nan)));
}

TEST(Rules, ExpAtTheEnds) {
  EXPECT_EQ(Exp::of(0.0F), 1.0F);
  EXPECT_EQ(Exp::of(-0.0F), 1.0F);
  EXPECT_EQ(Exp::of(-infinity), 0.0F);
  EXPECT_EQ(Exp::of(-std::numeric_limits<float>::max()), 0.0F);
  EXPECT_EQ(Exp::of(infinity), infinity);
  EXPECT_EQ(Exp::of(88.73F), infinity);
  EXPECT_LT(Exp::of(88.72F), infinity);
  EXPECT_EQ(Exp::of(-103.9F), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(Exp::of(nan)));
}

TEST(Rules, LogIsWithinTwoUlps) {
  EXPECT_LT(worst_error<Log>(1, 0x7f7fffffU, 1201), 2.0);
  EXPECT_LT(worst_error<Log>(std::bit_cast<std::uint32_t>(0.68F), std::bit_cast<std::uint32_t>(1.5F), 17), 2.0);
}

TEST(Rules, LogAtTheEnds) {
  EXPECT_EQ(Log::of(1.0F), 0.0F);
  EXPECT_EQ(Log::of(0.0F), -infinity);
  EXPECT_EQ(Log::of(infinity), infinity);
  EXPECT_TRUE(std::isnan(Log::of(-1.0F)));
  EXPECT_TRUE(std::isnan(Log::of(-infinity)));
  EXPECT_TRUE(std::isnan(Log::of(nan)));
}

TEST(RowSums, AreAddedInTheDocumentedOrder) {
  float sums[chains], expected[chains];
  for (std::size_t c = 0; c < chains; ++c) sums[c] = expected[c] = 1.0F / static_cast<float>(c + 3);
  for (const std::size_t distance : {16, 32, 8, 4, 2, 1}) {
    for (std::size_t c = 0; c + distance < chains; ++c) {
      if ((c & distance) == 0) expected[c] += expected[c + distance];
    }
  }
  EXPECT_EQ(join_chains(sums), expected[0]);
}

}  // namespace of_rules_test
}  // namespace shoal::kernels::rules
