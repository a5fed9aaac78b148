// SPDX-License-Identifier: Apache-2.0
// How much time train.stop_after = auto keeps for saves.
#include "app/train/stop_clock.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "support/mpi_main.hpp"

namespace shoal::app {
namespace of_stop_clock_test {

/// 100 s are left, of which 10 are kept for the end, and 50 for a save of 40.
TEST(StopClock, ASaveUnderWayIsFollowedByTheLastOne) {
  setenv("SHOAL_JOB_END_TIME", std::to_string(std::time(nullptr) + 100).c_str(), 1);
  config::Invocation invocation;
  invocation.options.train.stop_after = config::TrainOptions::as_the_job;
  StopClock clock(test::world(), invocation);
  clock.start();
  clock.lap({.longest_s = 40});
  EXPECT_FALSE(clock.over());
  clock.lap({.longest_s = 40, .under_way = true});
  EXPECT_TRUE(clock.over());
  clock.lap({.longest_s = 40});
  EXPECT_FALSE(clock.over()) << "it is complete";
  clock.lap({.longest_s = 80});
  EXPECT_TRUE(clock.over());
}

}  // namespace of_stop_clock_test
}  // namespace shoal::app
