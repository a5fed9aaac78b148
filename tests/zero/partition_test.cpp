// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/partition.hpp"

#include <gtest/gtest.h>

namespace shoal::zero {
namespace of_partition_test {

TEST(Partition, ShardsCoverTheBufferOnceInOrder) {
  for (const std::size_t elements : {0UL, 1UL, 255UL, 256UL, 257UL, 1000UL, 4096UL, 100000UL}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      std::size_t at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range shard = shard_of(elements, rank, ranks);
        EXPECT_EQ(shard.begin, at) << elements << " elements, rank " << rank << " of " << ranks;
        at = shard.end;
      }
      EXPECT_EQ(at, elements) << ranks << " ranks";
    }
  }
}

TEST(Partition, ShardsAreWholeGranules) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Range shard = shard_of(12345, rank, ranks);
      if (!shard.empty()) {
        EXPECT_EQ(shard.begin % granule, 0U);
      }
    }
  }
}

TEST(Partition, NoShardIsLongerThanItsPartRoundedUpToGranules) {
  EXPECT_EQ(shard_length(1000, 4), 256U);
  EXPECT_EQ(shard_length(1025, 4), 512U);
  EXPECT_EQ(shard_length(0, 4), 0U);
}

}  // namespace of_partition_test
}  // namespace shoal::zero
