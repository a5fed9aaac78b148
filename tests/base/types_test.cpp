// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/types.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "shoal/base/names.hpp"

namespace shoal {
namespace of_types_test {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Infinity and NaN have the largest exponent.
bool finite(std::uint16_t bits) { return (bits & 0x7f80U) != 0x7f80U; }

TEST(Bf16, EachValueSurvivesTheWayToFloatAndBack) {
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

// Checks floats between each value and the next larger one, also between subnormal values, and between the largest value
// and infinity.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    if (!finite(low)) continue;
    const std::uint32_t wide = bits << 16U;
    const auto up = static_cast<std::uint16_t>(bits + 1);  // after the largest value: infinity
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

// If the payload of a NaN is in the lower 16 bits only, cutting these off would make it infinity.
template <typename T>
void expect_nan_stays_nan() {
  for (const std::uint32_t bits :
       {0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU, 0x7fc00000U, 0x7f808000U, 0x7f802000U}) {
    const T value(float_of(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << bits;
    EXPECT_EQ(value.bits >> 15U, bits >> 31U) << std::hex << bits;
  }
}

TEST(Bf16, NaNStaysNaN) { expect_nan_stays_nan<bf16>(); }

/// Returns the value of these bits by IEEE 754.
double value_of_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10U & 0x1fU), mantissa = static_cast<int>(bits & 0x3ffU);
  const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000U) != 0 ? -size : size;
}

TEST(F16, EachValueIsThatOfItsBitsAndSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    f16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    const f16 again(wide);
    if ((bits & 0x7fffU) > 0x7c00U) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_EQ(again.bits, bits | 0x200U) << "a quiet NaN of the same sign and payload";
    } else {
      EXPECT_EQ(again.bits, bits);
      if ((bits & 0x7fffU) == 0x7c00U) {
        EXPECT_TRUE(std::isinf(wide));
      } else {
        EXPECT_EQ(static_cast<double>(wide), value_of_half(bits));
      }
      EXPECT_EQ(std::signbit(wide), bits >> 15U == 1);
    }
  }
}

// Checks, between each value and the next larger one, the midpoint, which is a float, and the floats next to it. 65520 is
// the midpoint between the largest value and the one that would follow it: from there on numbers become infinity.
TEST(F16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7c00U; ++bits) {
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    const auto low = static_cast<float>(value_of_half(bits));
    const auto middle = static_cast<float>((value_of_half(bits) + value_of_half(bits + 1)) / 2);
    const float above = std::nextafter(middle, 1e30F), below = std::nextafter(middle, -1.0F);
    for (const std::uint32_t sign : {0U, 0x8000U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(f16(factor * std::nextafter(low, 1e30F)).bits, bits | sign);
      ASSERT_EQ(f16(factor * below).bits, bits | sign);
      ASSERT_EQ(f16(factor * middle).bits, even | sign);
      ASSERT_EQ(f16(factor * above).bits, (bits + 1) | sign);
    }
  }
}

TEST(F16, KnownValues) {
  EXPECT_EQ(f16(1.0F).bits, 0x3c00U);
  EXPECT_EQ(f16(-2.0F).bits, 0xc000U);
  EXPECT_EQ(f16(65504.0F).bits, 0x7bffU);
  EXPECT_EQ(f16(65519.99F).bits, 0x7bffU);
  EXPECT_EQ(f16(65520.0F).bits, 0x7c00U);
  EXPECT_EQ(f16(std::numeric_limits<float>::max()).bits, 0x7c00U);
  EXPECT_EQ(f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00U);
  EXPECT_EQ(f16(-0.0F).bits, 0x8000U);
  EXPECT_EQ(f16(0x1p-24F).bits, 1U);
  EXPECT_EQ(f16(0x1p-25F).bits, 0U);
  EXPECT_EQ(f16(0x1.000002p-25F).bits, 1U);
  EXPECT_EQ(f16(std::numeric_limits<float>::denorm_min()).bits, 0U);
}

TEST(F16, NaNStaysNaN) { expect_nan_stays_nan<f16>(); }

TEST(DType, SizesAndNames) {
  static_assert(dtype_of<float> == DType::f32 && dtype_of<bf16> == DType::bf16 && dtype_of<f16> == DType::f16);
  EXPECT_EQ(size_of(DType::f32), sizeof(float));
  EXPECT_EQ(size_of(DType::bf16), sizeof(bf16));
  EXPECT_EQ(size_of(DType::f16), sizeof(f16));
  EXPECT_STREQ(name_of(DType::f32), "fp32");
  EXPECT_STREQ(name_of(DType::bf16), "bf16");
  EXPECT_STREQ(name_of(DType::f16), "fp16");
}

TEST(DType, DispatchNamesTheType) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(dispatch(type, []<typename T>(T) { return dtype_of<T>; }), type);
  }
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

}  // namespace of_types_test
}  // namespace shoal
