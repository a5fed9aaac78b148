// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lists.hpp"
#include "shapes.hpp"
#include "shoal/base/error.hpp"

namespace shoal::pipeline {
namespace of_schedule_test {

constexpr std::size_t most_turns = 32;
constexpr double backward_time = 2;

template <typename Check>
void for_all(Check check) {
  test::for_all({}, check);
}
using test::name_of_case;

TEST(Schedules, EveryPartMeetsEveryTurnOnceInAscendingOrderBothWays) {
  for_all([](const ScheduleRow& row, const ScheduleShape& shape) {
    for (const std::vector<Action>& list : lists_of(row.value, shape)) {
      std::vector<std::uint32_t> forward(static_cast<std::size_t>(shape.parts)), backward = forward;
      for (const Action& action : list) {
        const bool is_forward = action.kind == Action::Kind::forward;
        std::uint32_t& next = (is_forward ? forward : backward).at(action.part);
        ASSERT_EQ(action.turn, next++) << name_of_case(row, shape);
        if (!is_forward) {
          ASSERT_LT(action.turn, forward.at(action.part)) << name_of_case(row, shape);
        }
      }
      for (const std::uint32_t turns : forward) ASSERT_EQ(turns, shape.turns) << name_of_case(row, shape);
      for (const std::uint32_t turns : backward) ASSERT_EQ(turns, shape.turns) << name_of_case(row, shape);
    }
  });
}

TEST(Schedules, ListsThatCrossAreFound) {
  const ScheduleShape shape{2, 0, 2, 2};
  Lists all = lists_of(Schedule::interleaved, shape);
  // Stage 0 wants part 2 of turn 0 before it makes part 0 of turn 0, from which it follows.
  std::swap(all[0][0], all[0][2]);
  EXPECT_EQ(test::span(all, shape, backward_time), -1);
}

TEST(Schedules, EvaluationsMeetEveryTurnInAscendingOrder) {
  for (const ScheduleShape shape : {ScheduleShape{1, 0, 1, 5}, {3, 1, 1, 7}, {2, 0, 3, 5}, {4, 3, 2, 2}}) {
    std::vector<std::uint32_t> next(static_cast<std::size_t>(shape.parts));
    for (const Action& action : forward_only(shape)) {
      ASSERT_EQ(action.kind, Action::Kind::forward);
      ASSERT_EQ(action.turn, next.at(action.part)++);
    }
    for (const std::uint32_t turns : next) ASSERT_EQ(turns, shape.turns);
  }
}

TEST(Schedules, KeepAsManyTurnsAsTheirPapersSay) {
  for_all([](const ScheduleRow& row, ScheduleShape shape) {
    for (shape.stage = 0; shape.stage < shape.stages; ++shape.stage) {
      const std::vector<std::size_t> kept = slots(actions_of(row.value, shape));
      ASSERT_EQ(kept.size(), static_cast<std::size_t>(shape.parts)) << name_of_case(row, shape);
      const std::size_t following = static_cast<std::size_t>(shape.stages - shape.stage);
      for (const std::size_t slots : kept) {
        switch (row.value) {
          case Schedule::depth_first: ASSERT_EQ(slots, 1U); break;
          case Schedule::gpipe: ASSERT_EQ(slots, shape.turns); break;
          case Schedule::one_f_one_b: ASSERT_EQ(slots, std::min(following, shape.turns)); break;
          case Schedule::interleaved: ASSERT_LE(slots, shape.turns); break;
        }
      }
      if (row.value == Schedule::interleaved && shape.parts == 1) {
        ASSERT_EQ(kept[0], std::min(2 * following - 1, shape.turns)) << name_of_case(row, shape);
      }
    }
  });
  EXPECT_EQ(slots(interleaved({2, 0, 2, 8})), (std::vector<std::size_t>{4, 2}));
  EXPECT_EQ(slots(interleaved({2, 1, 2, 8})), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(slots(interleaved({4, 0, 2, 12})), (std::vector<std::size_t>{8, 4}));
}

TEST(Schedules, IdleShareIsThatOfTheFormula) {
  for_all([](const ScheduleRow& row, const ScheduleShape& shape) {
    const double span = test::span(lists_of(row.value, shape), shape, backward_time);
    ASSERT_GT(span, 0) << name_of_case(row, shape);
    const double busy = static_cast<double>(shape.parts) * static_cast<double>(shape.turns) * (1 + backward_time);
    const double idle = 1 - busy / span, formula = ideal_idle_share(shape);
    if (shape.turns >= static_cast<std::size_t>(shape.stages) || shape.parts == 1) {
      ASSERT_NEAR(idle, formula, 1e-12) << name_of_case(row, shape);
    } else {
      ASSERT_GT(idle, formula) << name_of_case(row, shape);
    }
  });
  EXPECT_NEAR(1 - ideal_idle_share({2, 0, 1, 8}), 8.0 / 9, 1e-12);
  EXPECT_NEAR(1 - ideal_idle_share({2, 0, 2, 8}), 16.0 / 17, 1e-12);
}

TEST(Schedules, OnOneStageWithOnePart1f1bIsDepthFirst) {
  for (std::size_t turns = 1; turns <= most_turns; ++turns) {
    EXPECT_EQ(one_f_one_b({1, 0, 1, turns}), depth_first({1, 0, 1, turns}));
  }
}

TEST(Schedules, ShapesThatARowDoesNotAllowAreRefused) {
  EXPECT_THROW(actions_of(Schedule::depth_first, {2, 0, 1, 4}), Error);
  EXPECT_THROW(actions_of(Schedule::one_f_one_b, {2, 0, 2, 4}), Error);
  EXPECT_THROW(actions_of(Schedule::interleaved, {2, 0, 2, 5}), Error);
  EXPECT_THROW(actions_of(Schedule::gpipe, {2, 2, 1, 4}), Error);
}

}  // namespace of_schedule_test
}  // namespace shoal::pipeline
