// SPDX-License-Identifier: Apache-2.0
#include "shoal/model/unit.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "shoal/base/error.hpp"

namespace shoal::model {
namespace of_unit_test {

UnitLayout three_tensors() {
  UnitLayout unit{"unit", {}, 0};
  unit.add("matrix", {7, 9}, 0.5F);
  unit.add("gain", {5}, 0, 1);
  unit.add("vast", {300, 400}, 2.0F);
  return unit;
}

TEST(UnitLayout, TensorsAreAligned) {
  const UnitLayout unit = three_tensors();
  EXPECT_EQ(unit.parameters[0].range(), (Range{0, 63}));
  EXPECT_EQ(unit.parameters[1].range(), (Range{64, 69}));
  EXPECT_EQ(unit.parameters[2].range(), (Range{80, 80 + 120000}));
  EXPECT_EQ(unit.elements, 120080U);
  EXPECT_EQ(unit.parameter_count(), 63U + 5U + 120000U);
  EXPECT_FALSE(unit.parameters[0].is_vector());
  EXPECT_TRUE(unit.parameters[1].is_vector());
}

TEST(Initialize, AnyRangeHasTheValuesOfTheWhole) {
  const UnitLayout unit = three_tensors();
  std::vector<float> whole(unit.elements);
  initialize(unit, 11, {0, unit.elements}, whole);
  for (const Range range :
       {Range{0, 1}, Range{61, 67}, Range{62, 64}, Range{3, 86}, Range{83, 1000}, Range{120079, 120080}}) {
    std::vector<float> part(range.size(), -1.0F);
    initialize(unit, 11, range, part);
    for (std::size_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i], whole[range.begin + i]) << "element " << range.begin + i;
  }
}

TEST(Initialize, GapsAreZeroAndConstantsConstant) {
  const UnitLayout unit = three_tensors();
  std::vector<float> whole(unit.elements, -1.0F);
  initialize(unit, 11, {0, unit.elements}, whole);
  EXPECT_EQ(whole[63], 0.0F);
  for (std::size_t i = 64; i < 69; ++i) EXPECT_EQ(whole[i], 1.0F);
  for (std::size_t i = 69; i < 80; ++i) EXPECT_EQ(whole[i], 0.0F);
}

TEST(Initialize, IsNormal) {
  const UnitLayout unit = three_tensors();
  std::vector<float> whole(unit.elements);
  initialize(unit, 11, {0, unit.elements}, whole);
  const auto n = static_cast<double>(unit.parameters[2].elements());
  double sum = 0, square = 0, fourth = 0;
  for (std::size_t i = 80; i < whole.size(); ++i) {
    const double z = static_cast<double>(whole[i]) / 2.0;
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
  }
  // Five standard errors: 1, sqrt(2) and sqrt(96) over sqrt(n).
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
}

TEST(Initialize, DependsOnSeedAndNameAlone) {
  UnitLayout here{"here", {}, 0}, there{"there", {}, 0};
  here.add("a", {4, 4}, 1);
  there.add("b", {4, 4}, 1);
  there.add("a", {4, 4}, 1);
  std::vector<float> first(16), moved(16), other_name(16), other_seed(16);
  initialize(here, 1, {0, 16}, first);
  initialize(there, 1, {16, 32}, moved);
  initialize(there, 1, {0, 16}, other_name);
  initialize(here, 2, {0, 16}, other_seed);
  EXPECT_EQ(first, moved);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NE(first[i], other_name[i]);
    EXPECT_NE(first[i], other_seed[i]);
  }
}

TEST(Initialize, RefusesARangeThatDoesNotFit) {
  const UnitLayout unit = three_tensors();
  std::vector<float> values(4);
  EXPECT_THROW(initialize(unit, 1, {0, 5}, values), Error);
  EXPECT_THROW(initialize(unit, 1, {unit.elements - 3, unit.elements + 1}, values), Error);
}

}  // namespace of_unit_test
}  // namespace shoal::model
