// SPDX-License-Identifier: Apache-2.0
// The gathers of a whole step of a pipeline's stage, planned from the order of its passes.
#include "zero/passes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "shoal/pipeline/schedule.hpp"
#include "small_gpt.hpp"

namespace shoal::zero::test {
namespace of_passes_test {

using pipeline::Schedule;

/// Part k of a stage of the small model: units 0 (embedding), 1 to 4 (blocks), 5 (head).
struct Stage {
  std::vector<model::Part> parts;
  StepOrder order;
};

Stage stage_of(Schedule schedule, const pipeline::ScheduleShape& shape, const std::vector<Range>& units, bool whole = true) {
  const auto list = pipeline::actions_of(schedule, shape);
  const auto slots = pipeline::slots(list);
  Stage stage;
  for (std::size_t k = 0; k < units.size(); ++k) stage.parts.push_back({units[k], slots[k], whole ? slots[k] : 0});
  for (const pipeline::Action& action : list) {
    stage.order.push_back({action.part, action.kind == pipeline::Action::Kind::backward, whole});
  }
  return stage;
}

StepUses uses_of(const Stage& stage, std::int64_t interval = 0) {
  EngineOptions o = small_gpt(3);
  o.capacity.checkpoint_interval = interval;
  return uses_of_step(o.model, o.capacity, stage.parts, stage.order);
}

/// All units have one size.
GatherPlan plan(const StepUses& uses, std::size_t prefetch, bool reshard = true) {
  ZeroOptions zero = {.stage = 3, .prefetch_units = prefetch, .reshard_after_forward = reshard};
  return plan_gathers(uses.order, std::vector<std::size_t>(layers + 2, 64), std::vector<std::string>(layers + 2), zero);
}

TEST(StepOrder, HasTheUsesOfAllPasses) {
  // The first of two stages, two turns: F0 F1 B0 B1. The embedding's backward needs no parameters.
  const StepUses first = uses_of(stage_of(Schedule::one_f_one_b, {2, 0, 1, 2}, {{0, 3}}));
  EXPECT_EQ(first.order, (UseOrder{{0}, {1}, {2}, {0}, {1}, {2}, {2}, {1}, {2}, {1}}));
  EXPECT_EQ(first.begin, (std::vector<std::size_t>{0, 3, 6, 8, 10}));
  // The last one: F0 B0 F1 B1. The head's backward is in its forward.
  const StepUses last = uses_of(stage_of(Schedule::one_f_one_b, {2, 1, 1, 2}, {{3, 6}}));
  EXPECT_EQ(last.order, (UseOrder{{3}, {4}, {5}, {4}, {3}, {3}, {4}, {5}, {4}, {3}}));
  // A slot that keeps the input of a segment of two blocks: backward computes block 3 again, then block 4 in the use in
  // which its backward follows.
  const StepUses again = uses_of(stage_of(Schedule::one_f_one_b, {2, 1, 1, 1}, {{3, 6}}, false), 2);
  EXPECT_EQ(again.order, (UseOrder{{3}, {4}, {5}, {3}, {4}, {3}}));
  EXPECT_EQ(again.begin, (std::vector<std::size_t>{0, 3, 6}));
}

TEST(StepOrder, OfTwoPartsFollowsTheSchedule) {
  const StepUses uses = uses_of(stage_of(Schedule::gpipe, {2, 0, 2, 1}, {{0, 2}, {3, 4}}));
  EXPECT_EQ(uses.order, (UseOrder{{0}, {1}, {3}, {3}, {1}}));
}

/// A unit that one pass uses last and the next one first is gathered once for both.
TEST(StepOrder, AUnitStaysFromOnePassToTheNext) {
  const StepUses first = uses_of(stage_of(Schedule::one_f_one_b, {2, 0, 1, 2}, {{0, 3}}));
  EXPECT_EQ(plan(first, 0).gather_lifetimes.size(), 9U) << "unit 2 stays from F1 to B0";
  const StepUses last = uses_of(stage_of(Schedule::one_f_one_b, {2, 1, 1, 2}, {{3, 6}}));
  EXPECT_EQ(plan(last, 0).gather_lifetimes.size(), 9U) << "unit 3 stays from B0 to F1";
}

/// Gathers of a pass start while the pass before it computes, except for the first one of the step.
TEST(StepOrder, GathersStartBeforeTheirPasses) {
  for (const auto schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
    const StepUses uses = uses_of(stage_of(schedule, {2, 0, 1, 8}, {{0, 3}}));
    const GatherPlan ahead = plan(uses, 1);
    for (const GatherLifetime& gather : ahead.gather_lifetimes) {
      EXPECT_LE(gather.start + 1, std::max<std::size_t>(1, gather.first)) << "use " << gather.first;
    }
    EXPECT_EQ(ahead.bytes, 2 * 64U) << "one in use, one ahead";
    EXPECT_EQ(plan(uses, 0).bytes, 64U);
  }
}

/// Several turns are between forward and backward at any time, so nothing is released before the end of the step.
TEST(StepOrder, UnitsThatAreKeptAfterForwardAreGatheredOnceInAStep) {
  for (const auto schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
    const GatherPlan kept = plan(uses_of(stage_of(schedule, {2, 0, 1, 8}, {{0, 3}})), 1, false);
    EXPECT_EQ(kept.gather_lifetimes.size(), 3U);
    EXPECT_EQ(kept.bytes, 3 * 64U);
  }
}

}  // namespace of_passes_test
}  // namespace shoal::zero::test
