// SPDX-License-Identifier: Apache-2.0
// Which steps of a run its speed is the mean over, and how summary.json names them.
#include "app/train/settled.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shoal::app {
namespace of_settled_test {

using testing::ElementsAre;
using testing::IsEmpty;

/// Steps 1 to `last`; a step's number is its seconds.
std::vector<StepTime> steps_to(std::int64_t last) {
  std::vector<StepTime> steps;
  for (std::int64_t step = 1; step <= last; ++step) steps.push_back({step, static_cast<double>(step)});
  return steps;
}

/// The settled ones of steps 1 to `last`. `left`: the steps at which the run was left and resumed.
std::vector<double> settled(std::int64_t last, const sync::SyncOptions& options = {},
                            const std::vector<std::int64_t>& left = {}) {
  std::vector<io::Ancestor> ancestors;
  for (const std::int64_t step : left) ancestors.push_back({"run", step});
  std::vector<double> seconds;
  for (const StepTime& each : settled_of(steps_to(last), ancestors, options)) seconds.push_back(each.seconds);
  return seconds;
}

TEST(SettledSteps, AreWithoutTheFirstOfEachPart) {
  EXPECT_THAT(settled(0), IsEmpty());
  EXPECT_THAT(settled(1), ElementsAre(1));
  EXPECT_THAT(settled(2), ElementsAre(1, 2));
  EXPECT_THAT(settled(4), ElementsAre(2, 3, 4));
  EXPECT_THAT(settled(7, {}, {4}), ElementsAre(2, 3, 4, 6, 7));
  EXPECT_THAT(settled(7, {}, {0}), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(settled(5, {}, {3}), ElementsAre(2, 3)) << "the short last part is left out beside a long one";
  EXPECT_THAT(settled(4, {}, {2}), ElementsAre(1, 2, 3, 4)) << "there are only short parts";
  EXPECT_THAT(settled(12, {}, {4, 8}), ElementsAre(2, 3, 4, 6, 7, 8, 10, 11, 12)) << "a run that was resumed twice";
  EXPECT_THAT(settled(7, {}, {4, 4}), ElementsAre(2, 3, 4, 6, 7)) << "nothing is left of the part between";
  EXPECT_THAT(settled(4, {}, {4}), ElementsAre(2, 3, 4)) << "the last part had no steps left";
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
  EXPECT_THAT(settled(9, {.kind = localsgd, .localsgd_frequency = 2, .warmup_steps = 5}, {4}), ElementsAre(6, 7, 8, 9))
      << "the first part lies in the warm-up, so it does not count";
  const sync::SyncOptions warm = {.kind = localsgd, .localsgd_frequency = 4, .warmup_steps = 20};
  EXPECT_EQ(settled(40, warm, {15}), settled(40, warm)) << "of the part that goes beyond the warm-up";
  EXPECT_THAT(settled(32, warm, {15, 24}), ElementsAre(21, 22, 23, 24, 29, 30, 31, 32));
  EXPECT_THAT(settled(22, warm, {20}), ElementsAre(21, 22));
  EXPECT_THAT(settled(18, warm, {10}), ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 18)) << "all lie in the warm-up";
  EXPECT_THAT(settled(4, {.kind = sgp, .warmup_steps = 2}), ElementsAre(3, 4));
  EXPECT_THAT(settled(4, {.kind = every_step, .warmup_steps = 2}), ElementsAre(2, 3, 4))
      << "without local training there is no warm-up";
}

TEST(SettledSteps, AreRangesInTheSummary) {
  const auto json = settled_json(settled_of(steps_to(7), {{"run", 4}}, {}), {});
  EXPECT_EQ(json.at("steps").dump(), "[[2,4],[6,7]]");
  EXPECT_EQ(json.at("period"), 1);
  EXPECT_EQ(settled_json({}, {.kind = sync::SyncKind::slowmo, .slowmo_frequency = 4}).at("period"), 4);
  EXPECT_DOUBLE_EQ(json.at("step_s").at("mean").get<double>(), 22.0 / 5);
  EXPECT_EQ(settled_json({}, {}).at("steps").dump(), "[]");
  EXPECT_TRUE(settled_json({}, {}).at("step_s").at("mean").is_null());
}

}  // namespace of_settled_test
}  // namespace shoal::app
