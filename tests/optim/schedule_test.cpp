// SPDX-License-Identifier: Apache-2.0
// Compares schedules with their formulas and, update by update, with DeepSpeed 0.19.8 (data/lr_schedules.json).
#include "shoal/optim/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "shoal/base/error.hpp"

namespace of_schedule_test {

using shoal::optim::OptimizerOptions;
using shoal::optim::Rates;
using shoal::optim::rates;
using shoal::optim::ScheduleKind;
using shoal::optim::ScheduleOptions;
using shoal::optim::WarmupKind;

double rate(const ScheduleOptions& schedule, std::int64_t t, double lr = 0.001) {
  OptimizerOptions optimizer;
  optimizer.lr = lr;
  return rates(schedule, optimizer, t).learning_rate;
}

TEST(Schedule, ConstantIsTheOptimizersRate) {
  for (const std::int64_t t : {0, 1, 1000000}) EXPECT_EQ(rate({}, t), 0.001);
}

TEST(Schedule, LinearRisesToTheOptimizersRate) {
  ScheduleOptions schedule;
  schedule.kind = ScheduleKind::linear;
  EXPECT_EQ(rate(schedule, 0), 0.001);  // no warm-up
  schedule.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 0.00025);
  EXPECT_DOUBLE_EQ(rate(schedule, 2), 0.00075);
  EXPECT_EQ(rate(schedule, 3), 0.001);
  EXPECT_EQ(rate(schedule, 4), 0.001);
}

TEST(Schedule, IsDescribedAsItIs) {
  ScheduleOptions schedule;
  EXPECT_EQ(describe(schedule), "constant");
  schedule.warmup_steps = 10;
  schedule.kind = ScheduleKind::linear;
  EXPECT_EQ(describe(schedule), "linear warm-up over 10 steps, then constant");
  schedule.kind = ScheduleKind::cosine;
  schedule.total_steps = 90;
  schedule.min_lr = 0.001;
  EXPECT_EQ(describe(schedule), "linear warm-up over 10 steps, then a cosine down to 0.001 at step 90");
  schedule.kind = ScheduleKind::WarmupLR;
  EXPECT_EQ(describe(schedule), "DeepSpeed's WarmupLR");
}

TEST(Schedule, CosineFallsToTheMinimumAtTheEnd) {
  ScheduleOptions schedule;
  schedule.kind = ScheduleKind::cosine;
  schedule.warmup_steps = 10;
  schedule.total_steps = 110;
  schedule.min_lr = 0.0001;
  EXPECT_DOUBLE_EQ(rate(schedule, 0), 0.0001);
  EXPECT_EQ(rate(schedule, 9), 0.001);
  EXPECT_EQ(rate(schedule, 10), 0.001);
  EXPECT_DOUBLE_EQ(rate(schedule, 35), 0.0001 + 0.0009 * (0.5 + 0.25 * std::sqrt(2.0)));  // cos(pi / 4)
  EXPECT_DOUBLE_EQ(rate(schedule, 60), 0.00055);
  EXPECT_DOUBLE_EQ(rate(schedule, 110), 0.0001);
  EXPECT_DOUBLE_EQ(rate(schedule, 500), 0.0001);
}

TEST(Schedule, BetasAreTheOptimizersExceptInOneCycle) {
  OptimizerOptions optimizer;
  optimizer.beta1 = 0.7;
  optimizer.beta2 = 0.8;
  ScheduleOptions schedule;
  schedule.total_steps = 10;
  for (const shoal::optim::ScheduleRow& kind : shoal::optim::schedule_kinds) {
    schedule.kind = kind.value;
    const Rates now = rates(schedule, optimizer, 3);
    EXPECT_EQ(now.beta1 == 0.7, kind.value != ScheduleKind::OneCycle) << kind.name;
    EXPECT_EQ(now.beta2, kind.value == ScheduleKind::OneCycle ? 0.99 : 0.8) << kind.name;
  }
  schedule.cycle_momentum = false;
  EXPECT_EQ(rates(schedule, optimizer, 3).beta1, 0.7);
  EXPECT_EQ(rates(schedule, optimizer, 3).beta2, 0.8);
}

TEST(Schedule, ADecayNeedsItsEnd) {
  ScheduleOptions schedule;
  schedule.kind = ScheduleKind::cosine;
  EXPECT_THAT([&] { rate(schedule, 0); },
              testing::ThrowsMessage<shoal::Error>(testing::HasSubstr("total_steps is not set")));
}

/// Returns the options for DeepSpeed's JSON block. A parameter that is not listed here fails the test.
ScheduleOptions translate(const nlohmann::json& scheduler) {
  ScheduleOptions schedule;
  schedule.kind = shoal::value_named<ScheduleKind>(std::string(scheduler["type"])).value();
  schedule.warmup_steps = 1000;  // DeepSpeed's default
  const auto number = [](double& to) { return [&to](const nlohmann::json& value) { to = value; }; };
  const auto count = [](std::size_t& to) { return [&to](const nlohmann::json& value) { to = value; }; };
  const std::map<std::string, std::function<void(const nlohmann::json&)>> meaning{
      {"warmup_min_lr", number(schedule.min_lr)},
      {"warmup_max_lr", number(schedule.warmup_max_lr)},
      {"warmup_num_steps", count(schedule.warmup_steps)},
      {"warmup_type",
       [&](const nlohmann::json& value) {
         schedule.warmup_kind = shoal::value_named<WarmupKind>(std::string(value)).value();
       }},
      {"total_num_steps", count(schedule.total_steps)},
      {"warmup_min_ratio", number(schedule.warmup_min_ratio)},
      {"cos_min_ratio", number(schedule.cos_min_ratio)},
      {"cycle_min_lr", number(schedule.cycle_min_lr)},
      {"cycle_max_lr", number(schedule.cycle_max_lr)},
      {"decay_lr_rate", number(schedule.decay_lr_rate)},
      {"cycle_first_step_size", count(schedule.cycle_first_step_size)},
      {"cycle_second_step_size", count(schedule.cycle_second_step_size)},
      {"cycle_first_stair_count", count(schedule.cycle_first_stair_count)},
      {"cycle_second_stair_count", count(schedule.cycle_second_stair_count)},
      {"decay_step_size", count(schedule.decay_step_size)},
      {"cycle_min_mom", number(schedule.cycle_min_mom)},
      {"cycle_max_mom", number(schedule.cycle_max_mom)},
      {"decay_mom_rate", number(schedule.decay_mom_rate)}};
  for (const auto& [name, value] : scheduler["params"].items()) meaning.at(name)(value);
  return schedule;
}

void expect_as_deepspeed(double ours, double expected, const std::string& what) {
  EXPECT_NEAR(ours, expected, 1e-12 * std::abs(expected) + 1e-18) << what;
}

TEST(Schedule, DeepSpeedsUpdateByUpdate) {
  std::ifstream file(std::string(std::getenv("SHOAL_SOURCE")) + "/tests/optim/data/lr_schedules.json");
  ASSERT_TRUE(file);
  const auto oracle = nlohmann::json::parse(file);
  std::map<ScheduleKind, int> compared;
  for (const nlohmann::json& c : oracle["cases"]) {
    if (c["scheduler"]["type"] == "LRRangeTest") continue;  // not one of ours
    const ScheduleOptions schedule = translate(c["scheduler"]);
    OptimizerOptions optimizer;
    optimizer.lr = c["optimizer_lr"];
    optimizer.beta1 = c["optimizer_betas"][0];
    optimizer.beta2 = c["optimizer_betas"][1];
    for (std::size_t t = 0; t < c["lr_used_by_step"].size(); ++t) {
      const std::string what = c["scheduler"].dump() + " update " + std::to_string(t);
      const Rates now = rates(schedule, optimizer, static_cast<std::int64_t>(t));
      expect_as_deepspeed(now.learning_rate, c["lr_used_by_step"][t], what);
      if (c.contains("beta1_used_by_step")) {
        expect_as_deepspeed(now.beta1, c["beta1_used_by_step"][t], what + " beta1");
        expect_as_deepspeed(now.beta2, c["beta2_used_by_step"][t], what + " beta2");
      }
      ++compared[schedule.kind];
    }
  }
  EXPECT_EQ(compared.size(), 4U);
}

}  // namespace of_schedule_test
