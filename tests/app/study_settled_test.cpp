// SPDX-License-Identifier: Apache-2.0
// Which steps of a run a study takes the mean over: the rule of analysis/run_options.py and run_parts.py.
#include "app/study/settled.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::app {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The settled ones of steps 1 to `last`; a step's number is its seconds.
std::vector<double> settled(std::int64_t last, const sync::SyncOptions& options = {}, std::int64_t last_part = 0) {
  std::vector<StepTime> steps;
  for (std::int64_t step = 1; step <= last; ++step) steps.push_back({step, static_cast<double>(step)});
  return settled_seconds(steps, last_part, options);
}

TEST(SettledSteps, AreWithoutTheFirstOfEachPart) {
  EXPECT_THAT(settled(0), IsEmpty());
  EXPECT_THAT(settled(1), ElementsAre(1));
  EXPECT_THAT(settled(2), ElementsAre(1, 2));
  EXPECT_THAT(settled(4), ElementsAre(2, 3, 4));
  EXPECT_THAT(settled(7, {}, 5), ElementsAre(2, 3, 4, 6, 7));
  EXPECT_THAT(settled(7, {}, 1), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(settled(5, {}, 4), ElementsAre(2, 3)) << "the short last part is left out beside a long one";
  EXPECT_THAT(settled(4, {}, 3), ElementsAre(1, 2, 3, 4)) << "there are only short parts";
}

TEST(SettledSteps, AreWholePeriodsAfterTheWarmUpWhereNodesTrainLocally) {
  using enum sync::SyncKind;
  EXPECT_THAT(settled(9, {.kind = localsgd, .localsgd_frequency = 3}), ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(settled(9, {.kind = localsgd, .localsgd_frequency = 3, .slowmo_frequency = 4, .warmup_steps = 5}),
              ElementsAre(7, 8, 9));
  EXPECT_THAT(settled(9, {.kind = slowmo, .localsgd_frequency = 2, .slowmo_frequency = 4}),
              ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(settled(6, {.kind = diloco, .slowmo_frequency = 4}), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(settled(4, {.kind = diloco, .slowmo_frequency = 4}), ElementsAre(2, 3, 4)) << "there is no whole period";
  EXPECT_THAT(settled(4, {.kind = diloco, .slowmo_frequency = 4, .warmup_steps = 9}), ElementsAre(2, 3, 4));
  EXPECT_THAT(settled(9, {.kind = localsgd, .localsgd_frequency = 2, .warmup_steps = 5}, 5), ElementsAre(6, 7, 8, 9))
      << "the first part lies in the warm-up, so it does not count";
  EXPECT_THAT(settled(4, {.kind = sgp, .warmup_steps = 2}), ElementsAre(3, 4));
  EXPECT_THAT(settled(4, {.kind = every_step, .warmup_steps = 2}), ElementsAre(2, 3, 4))
      << "without local training there is no warm-up";
}

}  // namespace
}  // namespace shoal::app
