// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/reduce.hpp"

#include <bit>
#include <limits>
#include <numeric>

#include "kernel_test.hpp"

namespace shoal::kernels::test {
namespace of_reduce_test {

std::vector<double> squares(const std::vector<float>& x) {
  std::vector<double> sums((x.size() + granule - 1) / granule);
  sum_of_squares_by_granule(x.size(), x.data(), sums.data());
  return sums;
}

double sum_of(const std::vector<float>& x) {
  std::vector<double> total = {-1.0};
  sum(x.size(), x.data(), total.data());
  return total[0];
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
    EXPECT_NEAR(sum_of(x), std::accumulate(x.begin(), x.end(), 0.0), 1e-10) << n;
  }
  EXPECT_EQ(sum_of({}), 0.0);
}

// Parts of 4096 are added in order: so the sum of two calls is that of one, if the first has one part.
TEST(Sum, AddsItsPartsInOrder) {
  constexpr std::size_t part = 4096;
  const auto x = numbers(67 * part + 5, 4, -1e4F, 1e4F);
  double total = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += part) {
    const auto from = x.begin() + static_cast<std::ptrdiff_t>(begin);
    total += sum_of({from, from + static_cast<std::ptrdiff_t>(std::min(part, x.size() - begin))});
  }
  EXPECT_EQ(sum_of(x), total);
}

/// The sum of both halves of a tree, whose left one is a power of two.
double tree(Span<const double> values) {
  if (values.size() == 1) return values[0];
  const std::size_t half = std::bit_ceil(values.size()) / 2;
  return tree(values.first(half)) + tree(values.subspan(half));
}

/// Sums of ranges of these lengths, which follow each other.
std::vector<double> sums_of_subtrees(const std::vector<std::size_t>& lengths, std::vector<double> values) {
  Subtrees subtrees;
  for (const std::size_t length : lengths) {
    subtrees.begin[subtrees.count + 1] = subtrees.begin[subtrees.count] + static_cast<std::uint32_t>(length);
    ++subtrees.count;
  }
  std::vector<double> sums(lengths.size(), -1.0);
  sum_subtrees(subtrees, values.data(), sums.data());
  return sums;
}

std::vector<double> wide_doubles(std::size_t n) {
  std::vector<double> values = doubles(numbers(n, 6, 0.0F, 1.0F));
  for (std::size_t i = 0; i < n; ++i) values[i] = std::ldexp(values[i], static_cast<int>(i * i % 40));
  return values;
}

TEST(SumSubtrees, HasTheBitsOfARecursion) {
  for (const std::size_t n : {1, 2, 3, 5, 8, 100, 1000, 1024, 4095, 4096, 4097, 8191, 8193, 12289, 40000}) {
    const auto values = wide_doubles(n);
    EXPECT_EQ(sums_of_subtrees({n}, values), std::vector<double>{tree(values)}) << n;
  }
}

TEST(SumSubtrees, OfSeveralRanges) {
  std::vector<std::size_t> lengths = {1, 5, 64, 9000, 4096, 3, 20000, 2, 1};
  for (const std::size_t more : {0, 55}) {  // up to the most that there may be
    lengths.resize(lengths.size() + more, 7);
    const auto values = wide_doubles(std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}));
    std::vector<double> want;
    std::size_t begin = 0;
    for (const std::size_t length : lengths) {
      want.push_back(tree(Span<const double>(values).subspan(begin, length)));
      begin += length;
    }
    EXPECT_EQ(sums_of_subtrees(lengths, values), want);
  }
  EXPECT_TRUE(sums_of_subtrees({}, {}).empty());
}

TEST(Reduce, NothingDependsOnThreads) {
  const auto x = numbers(100000, 5);
  expect_independent_of_threads<double>([&] { return squares(x); });
  expect_independent_of_threads<double>([&] { return std::vector<double>{sum_of(x)}; });
  expect_independent_of_threads<double>([&] { return sums_of_subtrees({30000, 1, 69999}, doubles(x)); });
}

}  // namespace of_reduce_test
}  // namespace shoal::kernels::test
