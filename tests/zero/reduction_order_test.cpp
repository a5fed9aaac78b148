// SPDX-License-Identifier: Apache-2.0
// Which reduction starts when, and what waits for it, in examples that can be followed by hand.
#include "zero/reduction_order.hpp"

#include <gtest/gtest.h>

#include <string>

#include "shoal/base/error.hpp"
#include "support/units.hpp"

namespace shoal::zero {
namespace of_reduction_order_test {

using shoal::test::units_of;

/// Three units of one bucket each, on two ranks.
struct Example {
  std::vector<model::UnitLayout> units = units_of({512, 512, 512});
  Sweeps sweeps = sweep_of_all(3);
  AccumulationPlan accumulation{4, 2};
  bool overlap = true;
  std::vector<std::size_t> before = {0, 0, 0};
  std::size_t most = 512;

  ReductionOrder order() const {
    return {units, sweeps, buckets_of_sweeps(units, sweeps, 2, most), accumulation, overlap, before};
  }
};

/// "+bucket" for each start and "-bucket" for each wait.
std::string text_of(const ReductionCalls& calls) {
  std::string text;
  for (const ReductionCall& call : calls) {
    text += (call.kind == Call::Kind::start ? "+" : "-") + std::to_string(call.bucket);
  }
  return text;
}

/// One sweep in its next turn: for each unit what comes before its gradient, and what follows.
std::string turn_of(ReductionOrder& order, const std::vector<int>& sweep) {
  std::string text;
  for (const int unit : sweep) {
    text += (text.empty() ? "" : " ") + text_of(order.begin(unit)) + "w" + std::to_string(unit);
    EXPECT_EQ(order.begin(unit), ReductionCalls{}) << "it is open";
    text += text_of(order.complete(unit));
  }
  return text;
}

TEST(ReductionOrder, OnceARoundStartsInTheLastTurnOfEachUnit) {
  const Example example;
  ReductionOrder order = example.order();
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2 w1 w0");
    EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2+0 w1+1 w0-0+2") << "two are in flight, and the third waits for the oldest";
    EXPECT_EQ(text_of(order.end_step()), "-1-2");
  }
}

TEST(ReductionOrder, ATurnWaitsForTheRoundBeforeIt) {
  Example example;
  example.accumulation = {6, 2};  // three rounds of one turn
  ReductionOrder order = example.order();
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2+0 w1+1 w0-0+2");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "-1-2w2+0 w1+1 w0-0+2");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "-1-2w2+0 w1+1 w0-0+2");
  EXPECT_EQ(text_of(order.end_step()), "-1-2");
}

TEST(ReductionOrder, WithoutOverlapStartsBetweenTurns) {
  Example example;
  example.overlap = false;
  example.accumulation = {6, 2};
  ReductionOrder order = example.order();
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2 w1 w0");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "+0+1-0+2-1-2w2 w1 w0");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "+0+1-0+2-1-2w2 w1 w0");
  EXPECT_EQ(text_of(order.end_step()), "+0+1-0+2-1-2");
}

TEST(ReductionOrder, EveryTurnWaitsForTheMemoryOfItsUnits) {
  Example example;
  example.accumulation = AccumulationPlan(4, 2, true);
  example.before = {1, 0, 0};
  ReductionOrder order = example.order();
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2+0 w1+1 -0w0+2");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "-1-2w2+0 w1+1 -0w0+2");
  EXPECT_EQ(text_of(order.end_step()), "-1-2");
  example.overlap = false;
  ReductionOrder waiting = example.order();
  EXPECT_EQ(turn_of(waiting, {2, 1, 0}), "w2+0-0 w1+1-1 w0+2-2");
}

TEST(ReductionOrder, ABucketOfTwoUnitsStartsWithTheSecond) {
  Example example;
  example.most = 1024;
  ReductionOrder order = example.order();
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2 w1 w0");
  EXPECT_EQ(turn_of(order, {2, 1, 0}), "w2 w1+0 w0+1");
  EXPECT_EQ(text_of(order.end_step()), "-0-1");
}

/// As on the last stage of a pipeline: the head's unit is a sweep of its own, a turn ahead of the others.
TEST(ReductionOrder, ATurnOfASweepWaitsForTheBucketsOfTheOthers) {
  Example example;
  example.sweeps = {{2}, {1, 0}};
  ReductionOrder order = example.order();
  EXPECT_EQ(turn_of(order, {2}), "w2");
  EXPECT_EQ(turn_of(order, {2}), "w2+0");
  EXPECT_EQ(turn_of(order, {1, 0}), "-0w1 w0");
  EXPECT_EQ(turn_of(order, {1, 0}), "w1+1 w0+2");
  EXPECT_EQ(text_of(order.end_step()), "-1-2");
}

TEST(ReductionOrder, RefusesUnitsOutOfTurn) {
  Example example;
  ReductionOrder order = example.order();
  EXPECT_THROW(order.complete(2), Error) << "it was not begun";
  turn_of(order, {2});
  EXPECT_THROW(order.begin(2), Error) << "units 1 and 0 are missing in this turn";
  EXPECT_THROW(order.end_step(), Error);
}

TEST(MessageSeries, StartsTheNextMessageWhenTheOldestHasEnded) {
  MessageSeries series(4);
  EXPECT_TRUE(series.all_ended());
  EXPECT_EQ(series.wait_for_all(), Calls{}) << "it was never started";
  constexpr Call::Kind start = Call::Kind::start, wait = Call::Kind::wait;
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(series.start(), (Calls{{start, 0}, {start, 1}}));
    EXPECT_EQ(series.wait_for(1), (Calls{{wait, 0}, {start, 2}}));
    EXPECT_EQ(series.wait_for(1), Calls{});
    EXPECT_FALSE(series.all_ended());
    EXPECT_EQ(series.wait_for_all(), (Calls{{wait, 1}, {start, 3}, {wait, 2}, {wait, 3}}));
    EXPECT_TRUE(series.all_ended());
  }
  MessageSeries none(0), one(1);
  EXPECT_EQ(none.start(), Calls{});
  EXPECT_EQ(one.start(), (Calls{{start, 0}}));
}

}  // namespace of_reduction_order_test
}  // namespace shoal::zero
