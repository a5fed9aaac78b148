// SPDX-License-Identifier: Apache-2.0
#include "app/train/step_log.hpp"

#include <gtest/gtest.h>

namespace shoal::app {
namespace of_step_log_test {

constexpr std::int64_t seconds = 1'000'000'000;

TEST(StepLog, HasALineForStepsInBetweenIfItWasLongSilent) {
  EXPECT_TRUE(has_line(20, 10, false, 0));
  EXPECT_FALSE(has_line(21, 10, false, 9 * seconds));
  EXPECT_TRUE(has_line(21, 10, false, 10 * seconds));
  EXPECT_FALSE(has_line(21, 10, true, 100 * seconds)) << "a line is redrawn at every step";
  EXPECT_TRUE(has_line(20, 10, true, 0));
}

}  // namespace of_step_log_test
}  // namespace shoal::app
