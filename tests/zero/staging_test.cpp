// SPDX-License-Identifier: Apache-2.0
#include "zero/staging.hpp"

#include <gtest/gtest.h>

namespace shoal::zero {
namespace of_staging_test {

/// An embedding and `blocks` blocks of 1024 elements each.
std::vector<model::UnitLayout> units(std::size_t blocks, bool early) {
  std::vector<model::UnitLayout> result(blocks + 1);
  for (auto& unit : result) unit.elements = 1024;
  result[0].early_gradient = early;
  return result;
}

struct Staged {
  Memory counting, memory;
  Staging staging;
  Staged(const std::vector<model::UnitLayout>& units, const std::vector<Bucket>& buckets, std::size_t in_flight)
      : memory(count(units, buckets, in_flight)), staging(units, sweep_of_all(units.size()), buckets, in_flight, memory) {}
  static Ledger count(const std::vector<model::UnitLayout>& units, const std::vector<Bucket>& buckets,
                      std::size_t in_flight) {
    Memory counting;
    const Staging staging(units, sweep_of_all(units.size()), buckets, in_flight, counting);
    return counting.taken();
  }
  std::size_t units_taken() const { return memory.taken()[Kind::buffers] / 4096; }
};

TEST(Staging, AUnitThatIsCopiedOutAtOnceNeedsOneBuffer) {
  EXPECT_EQ(Staged(units(8, false), {}, 1).units_taken(), 1U);
  EXPECT_EQ(Staged(units(8, true), {}, 1).units_taken(), 2U);  // the early one takes memory from the start
}

TEST(Staging, MemoryIsReusedWhenTheBucketsThatReadItAreFinished) {
  const auto layouts = units(8, false);
  const auto buckets = buckets_of_sweeps(layouts, sweep_of_all(9), 2, 1024);  // one bucket per unit
  const Staged staged(layouts, buckets, 1);
  EXPECT_EQ(staged.units_taken(), 2U);
  // Unit 8 is written first, and bucket 0 sends it. Unit 7 is written while bucket 0 is in flight; unit 6 has the memory of
  // unit 8.
  EXPECT_EQ(staged.staging.buckets_before(8), 0U);
  EXPECT_EQ(staged.staging.buckets_before(7), 0U);
  EXPECT_EQ(staged.staging.buckets_before(6), 1U);
  EXPECT_EQ(staged.staging.of(6), staged.staging.of(8));
  EXPECT_NE(staged.staging.of(7), staged.staging.of(8));
  EXPECT_EQ(Staged(layouts, buckets, 0).units_taken(), 1U);
}

TEST(Staging, ABucketOfTwoUnitsKeepsTheMemoryOfBoth) {
  const auto layouts = units(8, false);
  const auto buckets = buckets_of_sweeps(layouts, sweep_of_all(9), 2, 2048);  // two units in each bucket
  const Staged staged(layouts, buckets, 0);
  EXPECT_EQ(staged.units_taken(), 2U);
  EXPECT_EQ(staged.staging.buckets_before(7), 0U);
  EXPECT_EQ(staged.staging.buckets_before(6), 1U);
}

}  // namespace of_staging_test
}  // namespace shoal::zero
