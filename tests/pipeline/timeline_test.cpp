// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/timeline.hpp"

#include <gtest/gtest.h>

#include "lists.hpp"
#include "shapes.hpp"

namespace shoal::pipeline {
namespace of_timeline_test {

using testing::Test;

TEST(Timelines, OfEqualPartsAreThoseOfTheFormula) {
  test::for_all({}, [](const ScheduleRow& row, const ScheduleShape& shape) {
    const Lists lists = lists_of(row.value, shape);
    const Timeline line = timeline(lists, shape, equal_costs(shape));
    ASSERT_EQ(line.step, test::span(lists, shape, 2));
    if (shape.turns >= static_cast<std::size_t>(shape.stages) || shape.parts == 1) {
      ASSERT_NEAR(line.idle_share(), ideal_idle_share(shape), 1e-12);
      for (std::size_t s = 0; s < lists.size(); ++s) ASSERT_NEAR(line.idle_share(s), ideal_idle_share(shape), 1e-12);
    } else {
      ASSERT_GT(line.idle_share(), ideal_idle_share(shape));
    }
  });
}

/// 1f1b, two stages, two turns:   stage 0  F0 F1 . . B0 . . B1
///                                stage 1  . F0 B0 F1 B1
TEST(Timelines, MessagesAndUnequalPartsByHand) {
  const ScheduleShape shape{2, 0, 1, 2};
  const TimelineCosts costs{{{1, 2}, {3, 5}}, 0.5};
  const Timeline line = timeline(lists_of(Schedule::one_f_one_b, shape), shape, costs);
  EXPECT_EQ(line.actions[0], (std::vector<Interval>{{0, 1}, {1, 2}, {10, 12}, {18, 20}}));
  EXPECT_EQ(line.actions[1], (std::vector<Interval>{{1.5, 4.5}, {4.5, 9.5}, {9.5, 12.5}, {12.5, 17.5}}));
  EXPECT_EQ(line.step, 20);
  EXPECT_DOUBLE_EQ(line.idle_share(0), 1 - 6.0 / 20);
  EXPECT_DOUBLE_EQ(line.idle_share(1), 1 - 16.0 / 20);
  EXPECT_DOUBLE_EQ(line.idle_share(), 1 - 11.0 / 20);
  ASSERT_EQ(line.messages.size(), 4U);
  EXPECT_EQ(line.messages[2].border, (Border{Action::Kind::backward, 0, 0}));
  EXPECT_EQ(line.messages[2].time, (Interval{9.5, 10}));
}

/// The same with a skip connection, whose activations are not needed before others, and whose gradients come long before the
/// first stage reads them.
TEST(Timelines, SkipConnectionsByHand) {
  const ScheduleShape shape{2, 0, 1, 2, true};
  TimelineCosts costs{{{1, 2}, {3, 5}}, 0, {0.5}};
  costs.skip = 2;
  const Timeline line = timeline(lists_of(Schedule::one_f_one_b, shape), shape, costs);
  EXPECT_EQ(line.actions[0], (std::vector<Interval>{{0, 1}, {1, 2}, {11.5, 13.5}, {19.5, 21.5}}));
  EXPECT_EQ(line.actions[1], (std::vector<Interval>{{3, 6}, {6, 11}, {11, 14}, {14, 19}}));
  std::vector<TimelineMessage> skips;
  for (const TimelineMessage& message : line.messages) {
    if (message.border.skip) skips.push_back(message);
  }
  ASSERT_EQ(skips.size(), 4U);
  EXPECT_EQ(skips[0].border, (Border{Action::Kind::forward, 1, 0, true}));
  EXPECT_EQ(skips[0].time, (Interval{1, 3}));
  EXPECT_EQ(skips[1].time, (Interval{3, 5})) << "one after the other";
  EXPECT_EQ(skips[2].border, (Border{Action::Kind::backward, 0, 0, true}));
  EXPECT_EQ(skips[2].time, (Interval{6, 8}));
}

TEST(Timelines, OneStageSendsNothing) {
  const ScheduleShape shape{1, 0, 3, 4};
  const Timeline line = timeline(lists_of(Schedule::gpipe, shape), shape, equal_costs(shape, 100));
  EXPECT_EQ(line.step, 3 * 4 * 3);
  EXPECT_EQ(line.idle_share(), 0);
  EXPECT_TRUE(line.messages.empty());
}

TEST(Timelines, EvaluationsKeepTheStagesBusy) {
  for (const int parts : {1, 2, 3}) {
    const ScheduleShape shape{4, 0, parts, 16};
    EXPECT_EQ(timeline(evaluation_lists(shape), shape, equal_costs(shape)).step, 16 * parts + 3);
  }
}

/// Every action comes after the one before it on its stage, and after the message that it reads.
TEST(Timelines, MessagesAreInAnOrderInWhichTheyCanBeSent) {
  test::for_all_with_skips({5, 3, 12}, [](const ScheduleRow& row, const ScheduleShape& shape) {
    const Lists lists = lists_of(row.value, shape);
    const Timeline line = timeline(lists, shape, equal_costs(shape));
    std::vector<std::vector<std::size_t>> sent(static_cast<std::size_t>(2 * parts_of_model(shape)) + 2);
    std::vector<double> ends;
    for (const TimelineMessage& message : line.messages) {
      const int part = message.border.skip ? parts_of_model(shape) : message.border.part;
      auto& of_channel = sent[static_cast<std::size_t>(2 * part) + (message.border.kind == Action::Kind::forward ? 0 : 1)];
      ASSERT_EQ(message.border.turn, of_channel.size());
      of_channel.push_back(of_channel.size());
      if (!ends.empty()) {
        ASSERT_GE(message.time.end, ends.back());
      }
      ends.push_back(message.time.end);
    }
    const std::size_t of_part =
        shape.stages == 1 ? 0 : 2 * shape.turns * static_cast<std::size_t>(parts_of_model(shape) - (shape.skip ? 0 : 1));
    ASSERT_EQ(line.messages.size(), of_part);
  });
}

TEST(Timelines, WhatDoesNotFitIsRefused) {
  const ScheduleShape shape{2, 0, 1, 2};
  const Lists lists = lists_of(Schedule::gpipe, shape);
  EXPECT_THROW(timeline({lists[0]}, shape, equal_costs(shape)), Error);
  EXPECT_THROW(timeline(lists, shape, {}), Error);
}

/// An action that takes longer than its part does delays the border that another stage reads.
TEST(Timelines, AskHowLongEachActionTakes) {
  const ScheduleShape shape = {.stages = 2, .turns = 2};
  const Lists lists = lists_of(Schedule::one_f_one_b, shape);
  TimelineCosts costs = equal_costs(shape);
  const Timeline before = timeline(lists, shape, costs);
  std::vector<std::vector<double>> begins(2);
  costs.takes = [&](std::size_t stage, std::size_t action, double begin) {
    EXPECT_EQ(action, begins[stage].size());
    begins[stage].push_back(begin);
    const double longer = stage == 0 && action == 0 ? 0.5 : stage == 1 && action == 3 ? 0.25 : 0;
    return longer + (lists[stage][action].kind == Action::Kind::forward ? 1 : 2);
  };
  const Timeline after = timeline(lists, shape, costs);
  EXPECT_EQ(after.actions[0][0].length(), before.actions[0][0].length() + 0.5);
  EXPECT_EQ(after.actions[1][0].begin, before.actions[1][0].begin + 0.5);
  EXPECT_EQ(after.step, before.step + 0.75);
  for (const std::size_t stage : {0U, 1U}) {
    for (std::size_t i = 0; i < begins[stage].size(); ++i) EXPECT_EQ(begins[stage][i], after.actions[stage][i].begin);
  }
}

}  // namespace of_timeline_test
}  // namespace shoal::pipeline
