// SPDX-License-Identifier: Apache-2.0
// Common to the tests of kernels: sizes, operands, and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/roundoff.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/base/philox.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels::test {

/// Sizes near the width of a vector, a granule and a group of rows, and some odd ones.
inline constexpr std::array<std::size_t, 12> odd_sizes = {1, 15, 16, 17, 63, 64, 65, 129, 255, 256, 257, 1000};

/// n random numbers in (low, high], which are the same for the same stream.
template <typename T = float>
std::vector<T> numbers(std::size_t n, std::uint64_t stream, float low = -2.0F, float high = 2.0F) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float u = uniform(philox(stream, {static_cast<std::uint32_t>(i), 0, 0, 0})[0]);
    values[i] = T(low + (high - low) * u);
  }
  return values;
}

template <typename T>
std::vector<double> doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Expects |got - want| to be at most the roundoff of the result's type, plus `ulps` roundings of a float of size
/// `magnitude`, plus `ulps_of_value` roundings of a float of the result's size.
template <typename T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, double ulps, double magnitude,
                 double ulps_of_value = 0) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double tolerance = roundoff<T> * std::abs(want[i]) + subnormal_roundoff<T> +
                             (ulps * magnitude + ulps_of_value * std::abs(want[i])) * 0x1p-24;
    ASSERT_LE(std::abs(static_cast<double>(got[i]) - want[i]), tolerance) << "element " << i << " of " << got.size();
  }
}

/// Expects the same bits from `compute` with one thread and with two.
template <typename T>
void expect_independent_of_threads(const std::function<std::vector<T>()>& compute) {
  const std::vector<T> one = compute();
  const WithThreads threads(2);
  const std::vector<T> two = compute();
  EXPECT_TRUE(same_bits(one, two));
}

using StorageTypes = testing::Types<float, bf16, f16>;

}  // namespace shoal::kernels::test
