// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace shoal::kernels::simd {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan = std::numeric_limits<float>::quiet_NaN();

struct Exp {
  static void apply(float* x) { store(x, exp(load(x))); }
  static double exact(double x) { return std::exp(x); }
};
struct Log {
  static void apply(float* x) { store(x, log(load(x))); }
  static double exact(double x) { return std::log(x); }
};

struct RoughExp2 {
  static void apply(float* x) { store(x, rough_exp2(load(x))); }
  static double exact(double x) { return std::exp2(x); }
};
struct RoughReciprocal {
  static void apply(float* x) { store(x, rough_reciprocal(load(x))); }
  static double exact(double x) { return 1 / x; }
};

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

template <class Function>
float value(float x) {
  std::array<float, width> lanes{};
  lanes.fill(x);
  Function::apply(lanes.data());
  return lanes[0];
}

/// The largest error, in units of the last place of the exact result, of every stride-th float from the one with the bits
/// `from` to the one with the bits `to`.
template <class Function>
double worst_error(std::uint32_t from, std::uint32_t to, std::uint32_t stride) {
  double worst = 0;
  std::array<float, width> lanes{};
  for (std::uint64_t bits = from; bits < to; bits += width * stride) {
    std::array<float, width> x{};
    for (std::size_t l = 0; l < width; ++l) x[l] = float_of(std::min(static_cast<std::uint32_t>(bits + l * stride), to));
    lanes = x;
    Function::apply(lanes.data());
    for (std::size_t l = 0; l < width; ++l) {
      const double exact = Function::exact(x[l]);
      if (std::abs(exact) > std::numeric_limits<float>::max() || exact == 0) continue;
      const double place = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
      worst = std::max(worst, std::abs(lanes[l] - exact) / place);
    }
  }
  return worst;
}

TEST(Simd, ExpIsWithinOneUlp) {
  EXPECT_LT(worst_error<Exp>(0, std::bit_cast<std::uint32_t>(88.7228F), 611), 1.0);
  EXPECT_LT(worst_error<Exp>(0x80000000U, std::bit_cast<std::uint32_t>(-104.0F), 611), 1.0);
}

// A relative error e is e 2^23 to e 2^24 units of the last place.
TEST(Simd, RoughFunctionsSufficeForHalves) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  EXPECT_LT(worst_error<RoughExp2>(0, bits(127.99F), 611), 0x1p24 * 0x1p-18);
  EXPECT_LT(worst_error<RoughExp2>(bits(-0.0F), bits(-126.0F), 611), 0x1p24 * 0x1p-18);
  EXPECT_LT(worst_error<RoughReciprocal>(bits(0x1p-126F), bits(0x1p126F), 611), 0x1p24 * 0x1p-14);
}

TEST(Simd, RoughFunctionsAtTheEnds) {
  EXPECT_EQ(value<RoughExp2>(-infinity), 0.0F);
  EXPECT_EQ(value<RoughExp2>(-1e30F), 0.0F);
  EXPECT_EQ(value<RoughExp2>(infinity), infinity);
  EXPECT_EQ(value<RoughExp2>(128.1F), infinity);
  EXPECT_TRUE(std::isnan(value<RoughExp2>(nan)));
  EXPECT_EQ(value<RoughReciprocal>(infinity), 0.0F);
  EXPECT_TRUE(std::isnan(value<RoughReciprocal>(nan)));
}

TEST(Simd, ExpAtTheEnds) {
  EXPECT_EQ(value<Exp>(0.0F), 1.0F);
  EXPECT_EQ(value<Exp>(-0.0F), 1.0F);
  EXPECT_EQ(value<Exp>(-infinity), 0.0F);
  EXPECT_EQ(value<Exp>(-std::numeric_limits<float>::max()), 0.0F);
  EXPECT_EQ(value<Exp>(infinity), infinity);
  EXPECT_EQ(value<Exp>(88.73F), infinity);
  EXPECT_LT(value<Exp>(88.72F), infinity);
  EXPECT_EQ(value<Exp>(-103.9F), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(value<Exp>(nan)));
}

TEST(Simd, LogIsWithinTwoUlps) {
  EXPECT_LT(worst_error<Log>(1, 0x7f7fffffU, 1201), 2.0);
  EXPECT_LT(worst_error<Log>(std::bit_cast<std::uint32_t>(0.68F), std::bit_cast<std::uint32_t>(1.5F), 17), 2.0);
}

TEST(Simd, LogAtTheEnds) {
  EXPECT_EQ(value<Log>(1.0F), 0.0F);
  EXPECT_EQ(value<Log>(0.0F), -infinity);
  EXPECT_EQ(value<Log>(infinity), infinity);
  EXPECT_TRUE(std::isnan(value<Log>(-1.0F)));
  EXPECT_TRUE(std::isnan(value<Log>(-infinity)));
  EXPECT_TRUE(std::isnan(value<Log>(nan)));
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

}  // namespace
}  // namespace shoal::kernels::simd
