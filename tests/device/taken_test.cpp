// SPDX-License-Identifier: Apache-2.0
// Who has taken memory of a GPU. The test says how much is free.
#include "shoal/device/taken.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace shoal::device {

namespace {
std::optional<std::uint64_t> free_now;
}
std::optional<std::uint64_t> unit_free_bytes() { return free_now; }

namespace {

TEST(Taken, IsWhatIsNoLongerFree) {
  measure_taken("host", [] {});
  EXPECT_TRUE(taken().empty()) << "without a unit nothing is measured";

  free_now = 1000;
  add_taken("CUDA", 17);
  measure_taken("one", [] { *free_now -= 100; });
  measure_taken("two", [] {});
  measure_taken("one", [] { *free_now -= 30; });
  measure_taken("two", [] { *free_now += 5; });  // another process has ended
  EXPECT_THROW(measure_taken("three", [] { throw std::runtime_error("does not start"); }), std::runtime_error);
  ASSERT_EQ(taken().size(), 3);
  EXPECT_EQ(taken()[0].by, "CUDA");
  EXPECT_EQ(taken()[0].bytes, 17);
  EXPECT_EQ(taken()[1].by, "one");
  EXPECT_EQ(taken()[1].bytes, 130);
  EXPECT_EQ(taken()[2].by, "two");
  EXPECT_EQ(taken()[2].bytes, 0);
}

}  // namespace

}  // namespace shoal::device
