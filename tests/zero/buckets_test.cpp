// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/buckets.hpp"

#include <gtest/gtest.h>

#include <set>

#include "shoal/zero/partition.hpp"
#include "support/units.hpp"

namespace shoal::zero {
namespace of_buckets_test {

using shoal::test::units_of;

TEST(Buckets, CoverEveryElementOnceAndKeepToTheirSize) {
  const auto units = units_of({10000, 48, 300, 70000, 16});
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const std::size_t most : {1UL, 4096UL, 20000UL, 1000000UL}) {
      std::vector<std::vector<int>> covered;
      for (const auto& unit : units) covered.emplace_back(unit.elements, 0);
      for (const Bucket& bucket : make_buckets(units, {4, 3, 2, 1, 0}, ranks, most)) {
        std::size_t elements = 0;
        for (const BucketPiece& part : bucket.parts) {
          const auto u = static_cast<std::size_t>(part.unit);
          for (int d = 0; d < ranks; ++d) {
            const Range block = block_of(part, units[u].elements, d, ranks);
            elements += block.size();
            for (std::size_t i = block.begin; i < block.end; ++i) ++covered[u][i];
          }
        }
        EXPECT_EQ(elements, bucket.elements);
        EXPECT_LE(elements, std::max(most, granule * static_cast<std::size_t>(ranks)));
      }
      for (const auto& unit : covered) EXPECT_EQ(std::set<int>(unit.begin(), unit.end()), std::set<int>{1});
    }
  }
}

TEST(Buckets, ComeInTheOrderInWhichUnitsAreCompleted) {
  const auto units = units_of({5000, 5000, 5000});
  int before = 2;
  for (const Bucket& bucket : make_buckets(units, {2, 1, 0}, 2, 2048)) {
    EXPECT_LE(bucket.last_unit, before);
    EXPECT_EQ(bucket.last_unit, bucket.parts.back().unit);
    before = bucket.last_unit;
  }
  EXPECT_EQ(before, 0);
}

TEST(Buckets, SmallUnitsAreJoinedLargeOnesCut) {
  EXPECT_EQ(make_buckets(units_of({256, 256, 256}), {2, 1, 0}, 1, 1000000).size(), 1U);
  EXPECT_EQ(buckets_of_sweeps(units_of({256 * 8}), sweep_of_all(1), 1, 512).size(), 4U);
}

TEST(Buckets, NeverJoinUnitsOfTwoSweeps) {
  const auto units = units_of({256, 256, 256});
  const std::vector<Bucket> buckets = buckets_of_sweeps(units, Sweeps{{2}, {1, 0}}, 1, 1000000);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].parts.size(), 1U);
  EXPECT_EQ(buckets[1].parts.size(), 2U);
  EXPECT_EQ(buckets[1].last_unit, 0);
}

TEST(Sweeps, AreThoseOfEachPartAndOfAHeadThatIsTurnsAhead) {
  const auto three = units_of({256, 256, 256}), units = units_of({256, 256, 256, 256, 256, 256});
  EXPECT_EQ(sweeps_of({}, three), (Sweeps{{2, 1, 0}}));
  EXPECT_EQ(sweeps_of({model::Part{}}, three), (Sweeps{{2, 1, 0}}));
  EXPECT_EQ(sweeps_of({{{0, 2}}, {{3, 5}}}, units), (Sweeps{{4, 3}, {1, 0}}));
  EXPECT_EQ(sweeps_of({{{0, 2}, 2}, {{3, 6}, 2}}, units), (Sweeps{{5}, {4, 3}, {1, 0}}));
  EXPECT_EQ(sweeps_of({{{5, 6}, 2}}, units), (Sweeps{{5}}));
  auto tied = units;
  tied.back().copy_of = 0;  // by the head, which is unit 4
  EXPECT_EQ(sweeps_of({{{0, 2}, 2}, {{3, 6}, 2}}, tied), (Sweeps{{5, 4}, {3}, {1, 0}}));
}

}  // namespace of_buckets_test
}  // namespace shoal::zero
