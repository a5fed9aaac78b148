// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/storage.hpp"

#include <limits>

#include "kernel_test.hpp"
#include "shoal/kernels/reduce.hpp"

namespace shoal::kernels::test {
namespace of_storage_test {

template <typename T>
class Storage : public testing::Test {};
TYPED_TEST_SUITE(Storage, StorageTypes);

/// Sizes near a vector, a work item (16384), and the ends of the rounds of a conversion in place.
constexpr std::size_t sizes[] = {0, 1, 15, 16, 17, 255, 1000, 16383, 16384, 16385, 32768, 32800, 100'003};

TYPED_TEST(Storage, AddRoundsTheFloatSumOnce) {
  for (const std::size_t n : sizes) {
    const auto from = numbers<TypeParam>(n, 1), into = numbers<TypeParam>(n, 2, -600.0F, 600.0F);
    auto sum = into;
    add(dtype_of<TypeParam>, n, from.data(), sum.data());
    std::vector<TypeParam> want(n);
    for (std::size_t i = 0; i < n; ++i) want[i] = TypeParam(static_cast<float>(into[i]) + static_cast<float>(from[i]));
    EXPECT_TRUE(same_bits(sum, want)) << n;
  }
}

TYPED_TEST(Storage, NarrowIsTheTypesOwnRoundingAndWidenIsExact) {
  for (const std::size_t n : sizes) {
    const auto x = numbers(n, 3);
    std::vector<TypeParam> rounded(n), want(n);
    std::vector<float> back(n), wide(n);
    narrow(dtype_of<TypeParam>, n, x.data(), rounded.data());
    widen(dtype_of<TypeParam>, n, rounded.data(), back.data());
    for (std::size_t i = 0; i < n; ++i) want[i] = TypeParam(x[i]), wide[i] = static_cast<float>(want[i]);
    EXPECT_TRUE(same_bits(rounded, want)) << n;
    EXPECT_TRUE(same_bits(back, wide)) << n;
  }
}

TYPED_TEST(Storage, NarrowInPlaceIsNarrow) {
  for (const int count : {1, 2}) {
    const WithThreads threads(count);
    for (const std::size_t n : sizes) {
      auto x = numbers(n, 4);
      std::vector<TypeParam> want(n), got(n);
      narrow(dtype_of<TypeParam>, n, x.data(), want.data());
      narrow(dtype_of<TypeParam>, n, x.data(), x.data());
      if (n > 0) std::memcpy(static_cast<void*>(got.data()), x.data(), n * sizeof(TypeParam));
      EXPECT_TRUE(same_bits(got, want)) << n << " with threads: " << count;
    }
  }
}

TYPED_TEST(Storage, OfPartsAreThoseOfTheWhole) {
  constexpr std::size_t n = 5 * granule + 77;
  const DType type = dtype_of<TypeParam>;
  const auto x = numbers(n, 5);
  const auto from = numbers<TypeParam>(n, 6);
  std::vector<TypeParam> whole(n), parts(n);
  narrow(type, n, x.data(), whole.data());
  add(type, n, from.data(), whole.data());
  for (const std::size_t cut : {std::size_t{1}, std::size_t{13}, std::size_t{256}, n - 1}) {
    narrow(type, cut, x.data(), parts.data());
    narrow(type, n - cut, x.data() + cut, parts.data() + cut);
    add(type, cut, from.data(), parts.data());
    add(type, n - cut, from.data() + cut, parts.data() + cut);
    EXPECT_TRUE(same_bits(whole, parts)) << "cut at " << cut;
  }
}

TYPED_TEST(Storage, SumsOfSquaresAreThoseOfTheWidenedNumbers) {
  for (const std::size_t n : sizes) {
    const auto x = numbers<TypeParam>(n, 7);
    const std::vector<float> wide(x.begin(), x.end());
    std::vector<double> got((n + granule - 1) / granule), want(got.size());
    sum_of_squares_by_granule(dtype_of<TypeParam>, n, x.data(), got.data());
    sum_of_squares_by_granule(n, wide.data(), want.data());
    EXPECT_TRUE(same_bits(got, want)) << n;
  }
}

TYPED_TEST(Storage, WhatIsNotFiniteStays) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.0F, infinity, -infinity, std::nanf("")};
  std::vector<TypeParam> y(4);
  narrow(dtype_of<TypeParam>, 4, x.data(), y.data());
  add(dtype_of<TypeParam>, 4, y.data(), y.data());
  EXPECT_EQ(static_cast<float>(y[0]), 2.0F);
  EXPECT_EQ(static_cast<float>(y[1]), infinity);
  EXPECT_EQ(static_cast<float>(y[2]), -infinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(y[3])));
  std::vector<double> sum(1);
  sum_of_squares_by_granule(dtype_of<TypeParam>, 4, y.data(), sum.data());
  EXPECT_TRUE(std::isnan(sum[0]));
}

}  // namespace of_storage_test
}  // namespace shoal::kernels::test
