// SPDX-License-Identifier: Apache-2.0
// The estimate of the time left. Times are powers of two, so that sums are exact.
#include "app/train/pace.hpp"

#include <gtest/gtest.h>

namespace shoal::app {
namespace of_pace_test {

constexpr double slow_s = 64, step_s = 0.5;
constexpr Pause never;

/// Makes these steps; the first of the run is slow.
void make(Pace& pace, std::int64_t from, std::int64_t to, bool first_is_slow = false) {
  for (std::int64_t step = from; step <= to; ++step) {
    pace.step(step, static_cast<double>(step), 1, first_is_slow && step == from ? slow_s : step_s);
  }
}

TEST(Pace, LeavesTheFirstStepOut) {
  Pace pace(1000, 0, never, never);
  make(pace, 1, 1, true);
  EXPECT_TRUE(pace.in_first_step());
  EXPECT_FALSE(pace.left_s()) << "nothing is known of the others";
  make(pace, 2, 2);
  EXPECT_FALSE(pace.in_first_step());
  EXPECT_EQ(pace.left_s(), 998 * step_s);
  make(pace, 3, 1000);
  EXPECT_EQ(pace.left_s(), 0);
}

TEST(Pace, OfAResumedRunLeavesItsOwnFirstStepOut) {
  Pace pace(1000, 900, never, never);
  make(pace, 901, 904, true);
  EXPECT_EQ(pace.left_s(), 96 * step_s);
}

TEST(Pace, OfOneStepIsOver) {
  Pace pace(1, 0, never, never);
  make(pace, 1, 1, true);
  EXPECT_EQ(pace.left_s(), 0);
}

/// The evaluations and saves to come are counted, however soon the first one came.
TEST(Pace, CountsWhatIsDoneBetweenSteps) {
  Pace pace(1000, 99, {100, true}, {300, true});
  make(pace, 100, 100, true);
  pace.evaluation(8);
  make(pace, 101, 101);
  EXPECT_EQ(pace.left_s(), 899 * step_s + 9 * 8) << "after 200, 300, ..., 1000";
  make(pace, 102, 300);
  pace.evaluation(16);
  pace.save(4);
  make(pace, 301, 301);
  EXPECT_EQ(pace.left_s(), 699 * step_s + 7 * 12 + 3 * 4) << "saves after 600 and 900, and after the last step";
  make(pace, 302, 999);
  EXPECT_EQ(pace.left_s(), step_s + 12 + 4);
}

TEST(Pace, CountsWhatIsDoneOnlyAtTheEndIfItWasSeen) {
  Pace pace(10, 0, {0, true}, never);
  make(pace, 1, 5, true);
  EXPECT_EQ(pace.left_s(), 5 * step_s);
  pace.evaluation(2);
  EXPECT_EQ(pace.left_s(), 5 * step_s + 2);
}

/// A step of AdaScale counts as several small ones, a skipped one as none.
TEST(Pace, GoesByHowFarStepsCome) {
  Pace pace(100, 0, {2, false}, never);
  pace.step(1, 0, 0, slow_s);
  pace.step(2, 0, 0, step_s);
  EXPECT_FALSE(pace.left_s()) << "no step has come forward";
  pace.evaluation(1);
  pace.step(3, 4, 4, step_s);
  EXPECT_EQ(pace.left_s(), 48 * step_s + 24) << "two steps for every 4 small ones";
}

}  // namespace of_pace_test
}  // namespace shoal::app
