// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/types.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace shoal {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Infinity and NaN fill the uppermost exponent.
bool finite(std::uint16_t bits) { return (bits & 0x7f80U) != 0x7f80U; }

TEST(Bf16, EachValueComesBack) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    bf16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    const bf16 again(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(again)));
      EXPECT_EQ(again.bits, bits | 0x40U) << "a quiet NaN of the same sign and payload";
    } else {
      EXPECT_EQ(again.bits, bits);
    }
  }
}

// Between each value and the next one up in size, subnormal ones and the last before infinity included.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    if (!finite(low)) continue;
    const std::uint32_t wide = bits << 16U;
    const auto up = static_cast<std::uint16_t>(bits + 1);  // infinity above the largest
    const std::uint16_t even = bits % 2 == 0 ? low : up;
    ASSERT_EQ(bf16(float_of(wide + 1)).bits, low);
    ASSERT_EQ(bf16(float_of(wide + 0x7fffU)).bits, low);
    ASSERT_EQ(bf16(float_of(wide + 0x8000U)).bits, even);
    ASSERT_EQ(bf16(float_of(wide + 0x8001U)).bits, up);
    ASSERT_EQ(bf16(float_of(wide + 0xffffU)).bits, up);
  }
}

TEST(Bf16, KnownValues) {
  EXPECT_EQ(bf16(1.0F).bits, 0x3f80U);
  EXPECT_EQ(bf16(-2.0F).bits, 0xc000U);
  EXPECT_EQ(bf16(3.14159265F).bits, 0x4049U);
  EXPECT_EQ(bf16(-0.0F).bits, 0x8000U);
  EXPECT_EQ(bf16(std::numeric_limits<float>::infinity()).bits, 0x7f80U);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80U);
  EXPECT_EQ(bf16(std::numeric_limits<float>::denorm_min()).bits, 0U);
}

// A payload in the lower half alone must not be cut off to infinity.
TEST(Bf16, NaNStaysNaN) {
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU, 0x7fc00000U, 0x7f808000U}) {
    const bf16 value(float_of(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << bits;
    EXPECT_EQ(value.bits >> 15U, bits >> 31U) << std::hex << bits;
  }
}

TEST(DType, SizesAndNames) {
  static_assert(dtype_of<float> == DType::f32 && dtype_of<bf16> == DType::bf16);
  EXPECT_EQ(size_of(DType::f32), sizeof(float));
  EXPECT_EQ(size_of(DType::bf16), sizeof(bf16));
  EXPECT_STREQ(name_of(DType::f32), "fp32");
  EXPECT_STREQ(name_of(DType::bf16), "bf16");
}

TEST(Range, Intersection) {
  EXPECT_EQ(intersection({0, 10}, {5, 20}), (Range{5, 10}));
  EXPECT_EQ(intersection({5, 20}, {0, 10}), (Range{5, 10}));
  EXPECT_EQ(intersection({0, 10}, {3, 4}), (Range{3, 4}));
  EXPECT_TRUE(intersection({0, 5}, {5, 9}).empty());
  EXPECT_TRUE(intersection({0, 3}, {7, 9}).empty());
  EXPECT_TRUE(intersection({7, 9}, {0, 3}).empty());
  EXPECT_EQ(intersection({7, 9}, {0, 3}).size(), 0U);
}

TEST(RoundUp, ToTheNextMultiple) {
  EXPECT_EQ(round_up(0, 64), 0U);
  EXPECT_EQ(round_up(1, 64), 64U);
  EXPECT_EQ(round_up(64, 64), 64U);
  EXPECT_EQ(round_up(65, 64), 128U);
}

}  // namespace
}  // namespace shoal
