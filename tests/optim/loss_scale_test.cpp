// SPDX-License-Identifier: Apache-2.0
// Compares the loss scale, event by event, with that of DeepSpeed 0.19.8's DynamicLossScaler.
#include "shoal/optim/loss_scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "support/shared_data.hpp"

namespace of_loss_scale_test {

using shoal::Error;
using shoal::optim::LossScaleOptions;
using shoal::optim::LossScaler;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The expected state after each event, as pairs of a value and the number of events that it lasts.
struct Expected {
  std::vector<std::pair<double, std::size_t>> scales, hysteresis;
  int raises_at = -1;  ///< the event at which update() returns false; -1: none
};

std::vector<double> unrolled(const std::vector<std::pair<double, std::size_t>>& runs) {
  std::vector<double> values;
  for (const auto& [value, count] : runs) values.insert(values.end(), count, value);
  return values;
}

/// events: '.' finite, 'X' overflow. After each event the state is restored into a new scaler, which continues.
void walk(const LossScaleOptions& options, const std::string& events, const Expected& expected) {
  const std::vector<double> scales = unrolled(expected.scales), hysteresis = unrolled(expected.hysteresis);
  LossScaler scaler(options);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool goes_on = scaler.update(events[i] == 'X');
    ASSERT_EQ(goes_on, static_cast<int>(i) != expected.raises_at) << "event " << i;
    if (!goes_on) return;
    ASSERT_EQ(scaler.scale(), scales.at(i)) << "event " << i;
    ASSERT_EQ(scaler.state().hysteresis_left, hysteresis.at(i)) << "event " << i;
    LossScaler resumed(options);
    resumed.restore(scaler.state());
    ASSERT_EQ(resumed.state(), scaler.state());
    scaler = std::move(resumed);
  }
  EXPECT_EQ(expected.raises_at, -1);
}

TEST(LossScaler, HalvesOnceTheHysteresisIsUsedUpAndGrowsByWindows) {
  LossScaleOptions options;
  options.window = 3;
  const std::string events = "X.X....X.X........";
  walk(options, events,
       {{{65536, 2}, {32768, 4}, {65536, 3}, {32768, 4}, {65536, 3}, {131072, 2}}, {{1, 6}, {2, 1}, {1, 6}, {2, 5}}});
  options.consecutive_hysteresis = true;
  walk(options, events,
       {{{65536, 6}, {131072, 7}, {262144, 3}, {524288, 2}},
        {{1, 1}, {2, 1}, {1, 1}, {2, 4}, {1, 1}, {2, 1}, {1, 1}, {2, 8}}});
}

TEST(LossScaler, AnOverflowAtTheMinimumEndsTheRun) {
  LossScaleOptions options;
  options.initial_power = 2;
  options.hysteresis = 1;
  options.minimum = 1.5;
  walk(options, "XXX", {{{2, 1}, {1.5, 1}}, {{1, 2}}, 2});
  LossScaler resumed(options);  // with a minimum above the checkpoint's scale
  resumed.restore({0.5, 3, 1});
  EXPECT_FALSE(resumed.update(true));
  EXPECT_EQ(resumed.scale(), 0.5);
}

TEST(LossScaler, AFixedScaleStays) {
  LossScaleOptions options;
  options.scale = 128;
  LossScaler scaler(options);
  for (int i = 0; i < 5000; ++i) EXPECT_TRUE(scaler.update(i % 3 == 0));
  EXPECT_EQ(scaler.scale(), 128);
  scaler.restore({64, 7, 1});
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, RefusesWhatCannotBe) {
  const auto expect_refused = [](void (*change)(LossScaleOptions&), const char* name) {
    LossScaleOptions options;
    change(options);
    EXPECT_THAT([&] { LossScaler scaler(options); }, ThrowsMessage<Error>(HasSubstr(name)));
  };
  expect_refused([](LossScaleOptions& o) { o.scale = -1; }, "train.loss_scale = -1");
  expect_refused([](LossScaleOptions& o) { o.window = 0; }, "train.loss_scale_window = 0");
  expect_refused([](LossScaleOptions& o) { o.hysteresis = 0; }, "train.loss_scale_hysteresis = 0");
  expect_refused([](LossScaleOptions& o) { o.minimum = 0; }, "train.loss_scale_minimum = 0");
  LossScaler scaler({});
  EXPECT_THROW(scaler.restore({}), Error);
}

TEST(LossScaler, IsDeepSpeedsEventByEvent) {
  const std::filesystem::path path = shoal::test::shared_data("oracles/loss-scaler/loss_scaler.json");
  SHOAL_NEED(path);
  std::ifstream file(path);
  const auto oracle = nlohmann::json::parse(file);
  ASSERT_GT(oracle.at("cases").size(), 10U);
  for (const auto& entry : oracle.at("cases")) {
    const auto& config = entry.at("config");
    SCOPED_TRACE(config.dump());
    LossScaleOptions options;
    options.initial_power = config.at("initial_scale_power");
    options.window = config.at("loss_scale_window");
    options.hysteresis = config.at("hysteresis");
    options.consecutive_hysteresis = config.at("consecutive_hysteresis");
    options.minimum = config.at("min_loss_scale");
    Expected expected;
    for (const auto& run : entry.at("scale_after_step_runs")) expected.scales.emplace_back(run[0], run[1]);
    for (const auto& run : entry.at("hysteresis_after_step_runs")) expected.hysteresis.emplace_back(run[0], run[1]);
    if (!entry.at("raises_at_step").is_null()) expected.raises_at = entry.at("raises_at_step");
    walk(options, entry.at("events"), expected);
  }
}

}  // namespace of_loss_scale_test
