// SPDX-License-Identifier: Apache-2.0
// Steps of pipelines: bytes by link and times, compared with sums that can be made by hand.
#include "shoal/plan/pipeline_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "networks.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::plan {
namespace {

/// Two stages of one layer each, four turns, so four data-parallel ranks have 16 micro-batches.
PipelinePlan two_stages(std::size_t turns = 4, pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b) {
  PipelinePlan plan;
  plan.shape = {.stages = 2, .stage = 0, .parts = 1, .turns = turns};
  plan.lists = pipeline::lists_of(schedule, plan.shape);
  for (const Range units : {Range{0, 2}, Range{2, 4}}) {
    const std::size_t slots = pipeline::slots(plan.lists[plan.parts.size()]).front();
    plan.parts.push_back({{units, slots, slots}});
  }
  plan.border_bytes = 1000;
  return plan;
}

zero::EngineOptions untied(int stage, std::size_t micro_batches) {
  zero::EngineOptions options = some_options(stage);
  options.model.tied = false;
  options.micro_batches = micro_batches;
  return options;
}

double bytes_of_units(std::size_t first, std::size_t last) {
  const auto units = model::layout(untied(0, 4).model);
  double bytes = 0;
  for (std::size_t u = first; u <= last; ++u) bytes += static_cast<double>(units[u].elements * sizeof(float));
  return bytes;
}

TEST(PipelineStepOf, SendsABorderEachWayPerTurn) {
  const PipelineStep step = pipeline_step(untied(0, 4), two_stages(), {2, 1}, two_levels(), {});
  ASSERT_EQ(step.sent.size(), 2U);
  for (const Sent& sent : step.sent) {
    EXPECT_EQ(sent[OperationKind::send].inter, 4 * 1000);
    EXPECT_EQ(sent.total().total(), 4 * 1000) << "a data-parallel rank alone reduces nothing";
  }
  const PipelineStep near = pipeline_step(untied(0, 4), two_stages(), {1, 2}, two_levels(), {});
  EXPECT_EQ(near.sent[0][OperationKind::send].intra, 4 * 1000);
  EXPECT_EQ(near.time.across_per_node, 0);
}

/// On two nodes of two ranks each node has a stage: gradients stay on it, borders cross.
TEST(PipelineStepOf, ReducesTheUnitsOfAStageAmongItsRanks) {
  for (const int stage : {0, 1}) {
    const PipelineStep step = pipeline_step(untied(stage, 8), two_stages(), {2, 2}, two_levels(), {});
    for (const std::size_t s : {0U, 1U}) {
      const double own = s == 0 ? bytes_of_units(0, 1) : bytes_of_units(2, 3);
      double reduced = 0, gathered = 0;
      for (const std::size_t rank : {2 * s, 2 * s + 1}) {
        EXPECT_EQ(step.sent[rank].total().inter, 4 * 1000);
        reduced += step.sent[rank][OperationKind::reduce_scatter].intra;
        gathered += step.sent[rank][OperationKind::all_gather].intra;
      }
      EXPECT_EQ(reduced, own) << "each rank sends the other's half";
      EXPECT_EQ(gathered, own);
    }
    EXPECT_EQ(step.time.across_per_node, 2 * 4 * 1000);
  }
}

/// Without a network: A turns of both passes on the slower stage, and P - 1 turns of the other one before and after.
TEST(PipelineStepOf, TakesTheTimeOfItsPasses) {
  NetworkModel none = two_levels();
  none.node = none.across = Link{};
  none.sum_s_per_byte = 0;
  PipelinePlan plan = two_stages();
  const auto costs = model::costs(untied(0, 4).model, DType::f32, {});
  double all = 0;
  for (const auto& unit : costs) all += unit.flops();
  const auto turn = [&](std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t u = first; u <= last; ++u) sum += costs[u].flops();
    return sum / all;  // of 4 seconds for 4 turns
  };
  const PipelineStep step = pipeline_step(untied(0, 4), plan, {2, 1}, none, {4, 0});
  ASSERT_GT(turn(2, 3), turn(0, 1)) << "the head makes the last stage the slower one";
  EXPECT_NEAR(step.time.compute_s, 4 * turn(2, 3), 1e-9);
  EXPECT_NEAR(step.time.total_s(), 4 * turn(2, 3) + turn(0, 1), 1e-9);
  EXPECT_NEAR(step.idle_share, 1 - 4 * (turn(0, 1) + turn(2, 3)) / 2 / step.time.total_s(), 1e-9);
  EXPECT_DOUBLE_EQ(step.ideal_idle_share, 0.2);
  const PipelineStep updated = pipeline_step(untied(0, 4), plan, {2, 1}, none, {4, 1});
  const double largest = std::max(bytes_of_units(0, 1), bytes_of_units(2, 3)) / bytes_of_units(0, 3);
  EXPECT_NEAR(updated.time.total_s() - step.time.total_s(), largest, 1e-9);
  plan.recomputed = 1;
  const PipelineStep again = pipeline_step(untied(0, 4), plan, {2, 1}, none, {4, 0});
  const double layer = costs[2].forward_flops / all, first = (costs[0].forward_flops + costs[1].forward_flops) / all;
  EXPECT_NEAR(again.time.total_s() - step.time.total_s(), 4 * layer + first, 1e-9);
}

/// A link that is slower than the passes carries a border per turn in each direction, one after another. In 1f1b both
/// directions are busy at the same time, in gpipe one after the other.
TEST(PipelineStepOf, OnASlowLinkTakesTheTimeOfItsBorders) {
  NetworkModel slow = two_levels();
  slow.across = Link{0, 1e-3};
  const auto seconds = [&](std::size_t turns, pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b) {
    return pipeline_step(untied(0, turns), two_stages(turns, schedule), {2, 1}, slow, {}).time.total_s();
  };
  const double border = 1000 * 1e-3 / 2;  // it was measured with two ranks, which halved the rate of each
  EXPECT_NEAR((seconds(64) - seconds(32)) / 32, border, 1e-9);
  EXPECT_NEAR(seconds(64, pipeline::Schedule::gpipe), 2 * 64 * border + 2 * 10e-6, 1e-4);
  const PipelineStep pairs = pipeline_step(untied(0, 8), two_stages(), {2, 2}, slow, {});
  const PipelineStep one = pipeline_step(untied(0, 4), two_stages(), {2, 1}, slow, {});
  EXPECT_NEAR(pairs.time.total_s() / one.time.total_s(), 2, 0.01) << "two ranks of a node share its link";
}

/// Four stages on two nodes: only the border in the middle crosses between nodes.
TEST(PipelineStepOf, CountsEachBorderWithItsOwnLink) {
  NetworkModel slow = two_levels();
  slow.node = Link{0, 0};
  slow.across = Link{0, 1e-3};
  zero::EngineOptions options = untied(0, 1);
  options.model.n_layer = 4;
  PipelinePlan plan = two_stages(1);
  plan.shape.stages = 4;
  plan.lists = pipeline::lists_of(pipeline::Schedule::one_f_one_b, plan.shape);
  plan.parts = {{{{0, 2}, 1, 1}}, {{{2, 3}, 1, 1}}, {{{3, 4}, 1, 1}}, {{{4, 6}, 1, 1}}};
  const PipelineStep step = pipeline_step(options, plan, {2, 2}, slow, {});
  EXPECT_NEAR(step.time.total_s(), 2 * 1000 * 1e-3 / 2, 1e-9) << "once forward and once back";
  EXPECT_EQ(step.sent[0].total().inter, 0);
  EXPECT_EQ(step.sent[1][OperationKind::send].inter, 1000);
  EXPECT_EQ(step.sent[1][OperationKind::send].intra, 1000);
}

/// The first buckets of a stage are reduced while its last backward pass goes on, and updated parameters arrive during the
/// first forward pass of the next step.
TEST(PipelineStepOf, HidesReductionsBehindItsLastPasses) {
  NetworkModel slow = two_levels();
  slow.node = Link{0, 1e-6};
  const auto step_of = [&](int stage, bool overlap, const NetworkModel& network) {
    zero::EngineOptions options = untied(stage, 24);  // three rounds of four turns
    options.gradients.overlap = overlap;
    return pipeline_step(options, two_stages(12), {2, 2}, network, {40, 0});
  };
  NetworkModel none = slow;
  none.node = Link{};
  none.sum_s_per_byte = 0;
  for (const int stage : {0, 1}) {
    const PipelineStep hidden = step_of(stage, true, slow), waiting = step_of(stage, false, slow),
                       alone = step_of(stage, true, none);
    const double all = waiting.time.communication_s - alone.time.communication_s;  // of reductions and gathers
    ASSERT_GT(all, 0.1);
    EXPECT_EQ(hidden.time.communication_s, waiting.time.communication_s);
    EXPECT_EQ(hidden.sent[0].total().total(), waiting.sent[0].total().total());
    EXPECT_GT(hidden.time.total_s(), alone.time.total_s());
    EXPECT_LT(hidden.time.total_s() - alone.time.total_s(), 0.8 * all) << "stage " << stage;
    EXPECT_GT(waiting.time.total_s() - alone.time.total_s(), 0.8 * all) << "stage " << stage;
  }
}

TEST(TurnsOfHalfIdle, AreTheFewest) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const int parts : {1, 2, 3}) {
      for (const std::size_t turns : {1U, 2U, 4U, 12U, 24U}) {
        const auto idle = [&](std::size_t count) { return pipeline::ideal_idle_share({stages, 0, parts, count}); };
        const double half = idle(turns) / 2;
        const std::size_t found = turns_of_half_idle({stages, 0, parts, turns}, false);
        EXPECT_LE(idle(found), half + 1e-12);
        EXPECT_GT(idle(found - 1), half);
        const std::size_t group = static_cast<std::size_t>(stages);
        const std::size_t whole = turns_of_half_idle({stages, 0, parts, turns}, true);
        EXPECT_EQ(whole, (found + group - 1) / group * group);
      }
    }
  }
}

}  // namespace
}  // namespace shoal::plan
