// SPDX-License-Identifier: Apache-2.0
// Schedules of steps that can be followed by hand. scheduled_run_test.cpp compares schedules with what ranks do.
#include "shoal/zero/step_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "small_gpt.hpp"

namespace shoal::zero::test {
namespace of_step_schedule_test {

EngineOptions options(int stage) {
  EngineOptions o = small_gpt(stage);
  o.micro_batches = 12;  // three rounds on 2 and 4 ranks
  o.gradients.bucket_elements = 4096;
  return o;
}

/// "+" for a start, "-" for a wait, then the kind of message and its number; f and b: uses of a forward and a backward pass;
/// u: the update.
std::string text_of(const StepItems& items) {
  std::string text;
  for (const StepItem& item : items) {
    text += text.empty() ? "" : " ";
    switch (item.kind) {
      case StepItem::Kind::compute:
        text += (item.pass == StepItem::Pass::forward ? "f" : "b") + std::to_string(item.number);
        break;
      case StepItem::Kind::update: text += "u"; break;
      case StepItem::Kind::exchange: text += item.message == MessageKind::copied_gradients ? "xg" : "xp"; break;
      case StepItem::Kind::start:
      case StepItem::Kind::wait:
        text += item.kind == StepItem::Kind::start ? '+' : '-';
        text += "GRSPLN"[static_cast<std::size_t>(item.message)];
        text += std::to_string(item.number);
        break;
    }
  }
  return text;
}

/// The example of src/zero/README.md: three units of one bucket each, one turn on two ranks.
std::vector<std::string> example(int stage, bool overlap) {
  EngineOptions o;
  o.model = {.kind = model::ModelKind::mlp,
             .n_layer = 1,
             .n_embd = 16,
             .n_inner = 16,
             .block_size = 1,
             .vocab_size = 24,
             .init_from = ""};
  o.capacity = {.sequences = 1, .length = 1};
  o.zero.stage = stage;
  o.gradients.bucket_elements = 512;
  o.gradients.overlap = overlap;
  o.micro_batches = 2;
  StepSchedule schedule(o, 2);
  std::vector<std::string> step = {text_of(schedule.publish())};
  step.push_back(text_of(schedule.forward(0)));
  step.push_back(text_of(schedule.backward(0, true)));
  step.push_back(text_of(schedule.end_of_step()));
  return step;
}

TEST(StepSchedule, OfThreeUnits) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(example(0, true),
            (Texts{"", "f0 f1 f2 +R0", "b0 +R1 -R0 +R2", "-R1 -R2 +S0 +S1 +L0 -L0 +N0 -N0 -S0 +S2 -S1 -S2 u"}));
  EXPECT_EQ(example(1, true),
            (Texts{"+P0 +P1", "-P0 +P2 f0 -P1 f1 -P2 f2 +R0", "b0 +R1 -R0 +R2", "-R1 -R2 +L0 -L0 +N0 -N0 u +P0 +P1"}));
  EXPECT_EQ(example(1, false), (Texts{"+P0 +P1 -P0 +P2 -P1 -P2", "f0 f1 f2", "b0",
                                      "+R0 +R1 -R0 +R2 -R1 -R2 +L0 -L0 +N0 -N0 u +P0 +P1 -P0 +P2 -P1 -P2"}));
  EXPECT_EQ(example(3, true),
            (Texts{"", "+G0 +G1 -G0 f0 +G2 -G1 f1 -G2 f2 +R0", "b0 +R1 -R0 +R2", "-R1 -R2 +L0 -L0 +N0 -N0 u"}));
}

/// Each gather says which partition it is from: all ranks first, then the second partition until the next update.
TEST(StepSchedule, GathersFromTheSecondPartitionUntilTheNextUpdate) {
  EngineOptions o = options(3);
  o.zero.hpz_size = 2;
  StepSchedule schedule(o, 4);
  const auto gathers = [](const StepItems& items, bool near) {
    return std::count_if(items.begin(), items.end(), [near](const StepItem& item) {
      return item.kind == StepItem::Kind::start && item.message == MessageKind::gather && item.near == near;
    });
  };
  const auto units = static_cast<std::ptrdiff_t>(schedule.units().size());
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(gathers(schedule.forward(0), false), units);
    EXPECT_EQ(gathers(schedule.backward(0, true), false), 0);
    for (std::size_t turn = 1; turn < schedule.accumulation().turns(); ++turn) {
      const StepItems forward = schedule.forward(0);
      EXPECT_EQ(gathers(forward, false), 0);
      EXPECT_EQ(gathers(forward, true), units);
      schedule.backward(0, true);
    }
    schedule.end_of_step();
  }
}

TEST(StepSchedule, OfARankAloneHasNoMessages) {
  for (const int stage : {0, 1, 2, 3}) {
    StepSchedule schedule(options(stage), 1);
    StepItems all;
    for (std::size_t turn = 0; turn < schedule.accumulation().turns(); ++turn) {
      for (const StepItems& items : {schedule.forward(0), schedule.backward(0, true)})
        all.insert(all.end(), items.begin(), items.end());
    }
    for (const StepItem& item : all) EXPECT_EQ(item.kind, StepItem::Kind::compute);
    const StepItems end = schedule.end_of_step();
    ASSERT_EQ(end.size(), 1U);
    EXPECT_EQ(end.front().kind, StepItem::Kind::update);
  }
}

/// The embedding is in the first of three stages, and its copy, with the head, in the last one.
TEST(StepSchedule, TheEndsOfAPipelineExchangeCopiedUnits) {
  EngineOptions o = options(1);
  o.model.tied = true;
  o.model.tied_gradient = model::TiedGradient::apart;
  const std::size_t units = model::layout(o.model).size();
  const auto end_of = [&](Range own) {
    o.parts = {{.units = own}};
    StepSchedule schedule(o, 1);
    for (std::size_t turn = 0; turn < schedule.accumulation().turns(); ++turn) {
      schedule.forward(0);
      schedule.backward(0, true);
    }
    return text_of(schedule.end_of_step());
  };
  EXPECT_EQ(end_of({0, 2}), "xg +L0 -L0 +N0 -N0 u xp");
  EXPECT_EQ(end_of({2, 3}), "+L0 -L0 +N0 -N0 u");
  EXPECT_EQ(end_of({3, units}), "xg +L0 -L0 +N0 -N0 u xp");
  EXPECT_EQ(end_of({0, units}), "u");
}

}  // namespace of_step_schedule_test
}  // namespace shoal::zero::test
