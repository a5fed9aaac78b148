// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vectors/simd.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/rules/gelu.hpp"

namespace shoal::kernels::simd {
namespace of_simd_test {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::numeric_limits<float>::quiet_NaN();

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Expects the same bits from a rule of vectors and from the rule of single floats, for every stride-th float. (Two NaN may
/// differ in their payload.)
template <class Rule>
void expect_same_as_single(std::uint32_t stride, const Rule& rule) {
  for (std::uint64_t bits = 0; bits < 0x100000000U; bits += width * stride) {
    std::array<float, width> x{}, got{};
    for (std::size_t l = 0; l < width; ++l) x[l] = float_of(static_cast<std::uint32_t>(bits + l * stride));
    store(got.data(), rule(load(x.data())));
    for (std::size_t l = 0; l < width; ++l) {
      const float single = rule(x[l]);
      if (std::isnan(single) && std::isnan(got[l])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[l]), std::bit_cast<std::uint32_t>(single)) << x[l];
    }
  }
}

TEST(Simd, ComputesTheBitsOfSingleFloats) {
  constexpr std::uint32_t stride = 1201;
  expect_same_as_single(stride, [](auto x) { return rules::exp(x); });
  expect_same_as_single(stride, [](auto x) { return rules::log(x); });
  expect_same_as_single(stride, [](auto x) { return rules::gelu_gate<float>(x).open; });
}

TEST(Simd, RoughExp2SufficesForHalves) {
  for (float x = -126.0F; x < 127.99F; x += 0.00037F) {
    const double exact = std::exp2(static_cast<double>(x));
    const auto got = static_cast<double>(rules::rough_exp2(broadcast(x))[0]);
    ASSERT_LT(std::abs(got - exact) / exact, 0x1p-18) << x;
  }
  for (const float x : {-infinity, -1e30F, 0.0F, 128.1F, infinity}) {
    EXPECT_EQ(rules::rough_exp2(broadcast(x))[0], rules::rough_exp2(x)) << x;
  }
  EXPECT_TRUE(std::isnan(rules::rough_exp2(broadcast(nan))[0]));
}

TEST(Simd, RoughReciprocalSufficesForHalves) {
  for (float x = 0x1p-126F; x < 0x1p126F; x *= 1.0007F) {
    const auto got = static_cast<double>(rough_reciprocal(broadcast(x))[0]);
    ASSERT_LT(std::abs(got * static_cast<double>(x) - 1.0), 0x1p-14) << x;
  }
  EXPECT_EQ(rough_reciprocal(broadcast(infinity))[0], 0.0F);
  EXPECT_TRUE(std::isnan(rough_reciprocal(broadcast(nan))[0]));
}

// For each of the 2^16 results: the point between it and its neighbour, and the floats just below and just above that point;
// and NaNs.
TEST(Simd, NarrowRoundsAsBf16Does) {
  for (std::uint32_t upper = 0; upper < 0x10000U; upper += width) {
    for (const std::uint32_t lower : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      std::array<float, width> x{};
      std::array<bf16, width> got{};
      for (std::uint32_t l = 0; l < width; ++l) x[l] = float_of((upper + l) << 16U | lower);
      store(got.data(), load(x.data()));
      for (std::uint32_t l = 0; l < width; ++l) {
        ASSERT_EQ(got[l].bits, bf16(x[l]).bits) << std::hex << (upper + l) << " " << lower;
      }
    }
  }
}

TEST(Simd, WidenIsExact) {
  for (std::uint32_t upper = 0; upper < 0x10000U; upper += width) {
    std::array<bf16, width> x{};
    std::array<float, width> got{};
    for (std::uint32_t l = 0; l < width; ++l) x[l].bits = static_cast<std::uint16_t>(upper + l);
    store(got.data(), load(x.data()));
    for (std::uint32_t l = 0; l < width; ++l) ASSERT_EQ(std::bit_cast<std::uint32_t>(got[l]), (upper + l) << 16U);
  }
}

// Each half; floats near the middle between any two neighbours, from below the smallest to above the largest; and NaNs.
TEST(Simd, WidensF16AsF16Does) {
  for (std::uint32_t bits = 0; bits < 0x10000U; bits += width) {
    std::array<f16, width> x{};
    std::array<float, width> got{}, by_parts{};
    Halves halves{};
    for (std::uint32_t l = 0; l < width; ++l) halves[l] = x[l].bits = static_cast<std::uint16_t>(bits + l);
    store(got.data(), load(x.data()));
    store(by_parts.data(), widen_f16_by_parts(halves));
    for (std::uint32_t l = 0; l < width; ++l) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[l]), std::bit_cast<std::uint32_t>(static_cast<float>(x[l]))) << bits + l;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(by_parts[l]), std::bit_cast<std::uint32_t>(got[l])) << bits + l;
    }
  }
}

TEST(Simd, NarrowsToF16AsF16Does) {
  for (std::uint32_t upper = 0; upper < 0x80000U; upper += width) {  // sign, exponent, 10 bits of mantissa
    for (const std::uint32_t lower : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      std::array<float, width> x{};
      std::array<f16, width> got{};
      for (std::uint32_t l = 0; l < width; ++l) x[l] = float_of((upper + l) << 13U | lower);
      const Floats values = load(x.data());
      store(got.data(), values);
      const Halves by_parts = narrow_f16_by_parts(values);
      for (std::uint32_t l = 0; l < width; ++l) {
        ASSERT_EQ(got[l].bits, f16(x[l]).bits) << std::hex << (upper + l) << " " << lower;
        ASSERT_EQ(by_parts[l], got[l].bits) << std::hex << (upper + l) << " " << lower;
      }
    }
  }
}

template <typename T>
void check_partial() {
  for (std::size_t lanes = 1; lanes <= width; ++lanes) {
    std::vector<T> from(lanes);  // AddressSanitizer detects reads behind the last element
    for (std::size_t l = 0; l < lanes; ++l) from[l] = T(static_cast<float>(l + 1));
    std::array<float, width> all{};
    store(all.data(), load(from.data(), lanes));
    std::vector<T> to(width, T(-1.0F));
    store(to.data(), load(all.data()), lanes);
    for (std::size_t l = 0; l < width; ++l) {
      EXPECT_EQ(all[l], l < lanes ? static_cast<float>(l + 1) : 0.0F);
      EXPECT_EQ(static_cast<float>(to[l]), l < lanes ? static_cast<float>(l + 1) : -1.0F);
    }
  }
}
TEST(Simd, PartialVectorsOfFloats) { check_partial<float>(); }
TEST(Simd, PartialVectorsOfBf16) { check_partial<bf16>(); }
TEST(Simd, PartialVectorsOfF16) { check_partial<f16>(); }

TEST(Simd, SumAddsHalvesOntoHalves) {
  std::array<float, width> x{};
  for (std::size_t l = 0; l < width; ++l) x[l] = 1.0F / static_cast<float>(l + 3);
  std::array<float, width> folded = x;
  for (std::size_t half = width / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) folded[l] += folded[l + half];
  }
  EXPECT_EQ(sum(load(x.data())), folded[0]);
}

TEST(Simd, MaxFindsEachLane) {
  for (std::size_t at = 0; at < width; ++at) {
    std::array<float, width> x{};
    x.fill(-3.0F);
    x[at] = -2.0F;
    EXPECT_EQ(max(load(x.data())), -2.0F) << at;
  }
}

TEST(Simd, ForVectorsCoversEachElementOnce) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 31, 32, 33, 100}) {
    std::vector<int> seen(n);
    for_vectors(n, [&](std::size_t i, auto part) {
      for (std::size_t l = 0; l < part.lanes; ++l) ++seen.at(i + l);
    });
    EXPECT_EQ(seen, std::vector<int>(n, 1));
  }
}

}  // namespace of_simd_test
}  // namespace shoal::kernels::simd
