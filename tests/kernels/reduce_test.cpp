// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/reduce.hpp"

#include <limits>
#include <numeric>

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace {

std::vector<double> squares(const std::vector<float>& x) {
  std::vector<double> sums((x.size() + granule - 1) / granule);
  sum_of_squares_by_granule(x.size(), x.data(), sums.data());
  return sums;
}

constexpr std::size_t sizes[] = {1, 15, 16, 17, 255, 256, 257, 1000, 16384, 16385, 40000};

// 256 additions in double of numbers below 4.
TEST(SumOfSquares, IsTheReferenceByPiece) {
  for (const std::size_t n : sizes) {
    const auto x = numbers(n, 1);
    const auto got = squares(x);
    for (std::size_t p = 0; p < got.size(); ++p) {
      double want = 0;
      for (std::size_t i = p * granule; i < std::min(n, (p + 1) * granule); ++i) want += static_cast<double>(x[i]) * x[i];
      EXPECT_NEAR(got[p], want, 256 * 1024 * 0x1p-53) << "piece " << p << " of " << n;
    }
  }
}

TEST(SumOfSquares, OfPartsAreThoseOfTheWhole) {
  const auto x = numbers(5 * granule + 77, 2);
  const auto whole = squares(x);
  for (std::size_t cut = 0; cut <= 5; ++cut) {
    auto parts = squares({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(cut * granule)});
    const auto rest = squares({x.begin() + static_cast<std::ptrdiff_t>(cut * granule), x.end()});
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_TRUE(same_bits(parts, whole)) << "cut at piece " << cut;
  }
}

TEST(SumOfSquares, WhatIsNotFiniteShows) {
  auto x = numbers(3 * granule, 3);
  x[granule + 3] = std::numeric_limits<float>::infinity();
  x[2 * granule + 255] = std::nanf("");
  const auto got = squares(x);
  EXPECT_TRUE(std::isfinite(got[0]));
  EXPECT_TRUE(std::isinf(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
}

TEST(SumOfSquares, LargeFloatsDoNotOverflow) {
  const std::vector<float> x(granule, 3e38F);
  EXPECT_NEAR(squares(x)[0] / (256 * 9e76), 1.0, 1e-6);
}

TEST(Sum, IsTheReference) {
  for (const std::size_t n : sizes) {
    const auto x = numbers(n, 4);
    EXPECT_NEAR(sum(n, x.data()), std::accumulate(x.begin(), x.end(), 0.0), 1e-10) << n;
  }
  EXPECT_EQ(sum(0, nullptr), 0.0);
}

TEST(Reduce, NothingDependsOnThreads) {
  const auto x = numbers(100000, 5);
  expect_independent_of_threads<double>([&] { return squares(x); });
  expect_independent_of_threads<double>([&] { return std::vector<double>{sum(x.size(), x.data())}; });
}

}  // namespace
}  // namespace shoal::kernels::test
