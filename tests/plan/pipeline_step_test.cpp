// SPDX-License-Identifier: Apache-2.0
// Steps of pipelines: bytes by link and times, compared with sums that can be made by hand.
#include "shoal/plan/pipeline_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "networks.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::plan {
namespace of_pipeline_step_test {

/// Two stages of one layer each, four turns, so four data-parallel ranks have 16 micro-batches.
PipelinePlan two_stages(std::size_t turns = 4, pipeline::Schedule schedule = pipeline::Schedule::one_f_one_b) {
  PipelinePlan plan;
  plan.shape = {.stages = 2, .stage = 0, .parts = 1, .turns = turns};
  plan.lists = pipeline::lists_of(schedule, plan.shape);
  for (const Range units : {Range{0, 2}, Range{2, 4}}) {
    const std::size_t slots = pipeline::slots(plan.lists[plan.parts.size()]).front();
    plan.parts.push_back({{units, slots, slots}});
  }
  plan.orders = orders_of(plan.lists);
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

/// Stages of three ranks on nodes of two: rank 2 is alone of its stage on its node, and so is rank 3.
TEST(PipelineStepOf, CountsTheLinksOfEachStage) {
  const PipelineStep step = pipeline_step(untied(1, 12), two_stages(), {3, 2}, two_levels(), {});
  for (const std::size_t rank : {0U, 1U, 2U, 3U, 4U, 5U}) {
    const Bytes& sent = step.sent[rank][OperationKind::reduce_scatter];
    EXPECT_GT(sent.total(), 0) << rank;
    EXPECT_EQ(sent.intra == 0, rank == 2 || rank == 3) << rank;
  }
}

/// The ranks of a stage are on two nodes, and both links take about as long. Passes take no time, so a step is shorter than
/// the operations of a stage one after another only if those within nodes go on beside those across them.
TEST(PipelineStepOf, OverNcclOperationsOfAStageFollowEachOther) {
  NetworkModel network = two_levels();
  network.node->s_per_byte = 5e-9;
  for (const bool queued : {false, true}) {
    network.queued = queued;
    const StepTime time = pipeline_step(untied(3, 16), two_stages(), {4, 2}, network, {}).time;
    EXPECT_EQ(time.exposed_s < time.communication_s, !queued) << time.exposed_s << " of " << time.communication_s;
  }
}

/// The same with units that are gathered in each pass, when the sums of the pass before may still be in flight.
TEST(PipelineStepOf, OverNcclGathersThatAreApartDoNotFollowSums) {
  NetworkModel network = two_levels();
  network.queued = true;
  network.node->s_per_byte = 5e-9;
  zero::EngineOptions options = untied(3, 16);
  options.zero.prefetch_units = 0;
  const StepTime together = pipeline_step(options, two_stages(), {4, 2}, network, {}).time;
  network.gathers_apart = true;
  const StepTime apart = pipeline_step(options, two_stages(), {4, 2}, network, {}).time;
  EXPECT_EQ(apart.communication_s, together.communication_s);
  EXPECT_LT(apart.exposed_s, 0.95 * together.exposed_s);
}

/// On one node, in stages 2 and 3 of ZeRO. Four turns: F0 F1 B0 F2 B1 F3 B2 B3 of units 0 and 1, F0 B0 F1 B1 ... of 2 and 3.
TEST(PipelineStepOf, ReducesAndGathersForEveryTurn) {
  for (const int stage : {2, 3}) {
    zero::EngineOptions options = untied(stage, 8);
    options.zero.prefetch_units = 0;
    const PipelineStep step = pipeline_step(options, two_stages(), {1, 4}, two_levels(), {});
    for (const std::size_t s : {0U, 1U}) {
      double reduced = 0, gathered = 0;
      for (const std::size_t rank : {2 * s, 2 * s + 1}) {
        reduced += step.sent[rank][OperationKind::reduce_scatter].intra;
        gathered += step.sent[rank][OperationKind::all_gather].intra;
      }
      EXPECT_EQ(reduced, 4 * (s == 0 ? bytes_of_units(0, 1) : bytes_of_units(2, 3)));
      // Unit 1 stays from F1 to B0, from F2 to B1, and from F3 to B3; unit 2 from each backward pass to the next forward
      // one. The embedding (0) and the head (3) are used in forward passes alone.
      const double in_passes = s == 0 ? 4 * bytes_of_units(0, 1) : 4 * bytes_of_units(3, 3) + 5 * bytes_of_units(2, 2);
      EXPECT_EQ(gathered, stage == 3 ? in_passes : s == 0 ? bytes_of_units(0, 1) : bytes_of_units(2, 3));
    }
  }
}

/// A link that is slower than the passes carries each turn's gradients of a stage, one turn after another; without overlap
/// the arithmetic comes on top.
TEST(PipelineStepOf, TakesTheTimeOfTheReductionsOfEveryTurn) {
  NetworkModel slow = two_levels();
  slow.node = Link{0, 1e-6};
  slow.across = Link{0, 0};
  slow.sum_s_per_byte = 0;
  const auto seconds_of = [&](std::size_t turns, bool overlap) {
    zero::EngineOptions options = untied(2, 2 * turns);
    options.gradients.overlap = overlap;
    return pipeline_step(options, two_stages(turns), {2, 2}, slow, {1e-3 * static_cast<double>(turns), 0}).time.total_s();
  };
  const double largest = std::max(bytes_of_units(0, 1), bytes_of_units(2, 3)) / 2 * 1e-6;  // each rank sends half
  ASSERT_GT(largest, 1e-3) << "the arithmetic of a turn";
  const auto of_a_turn = [&](bool overlap) { return (seconds_of(64, overlap) - seconds_of(32, overlap)) / 32; };
  EXPECT_NEAR(of_a_turn(true), largest, 1e-3);
  EXPECT_GT(of_a_turn(false), of_a_turn(true) + 1e-5);
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
  for (zero::StepOrder& order : plan.orders) {
    for (zero::PassOfPart& pass : order) pass.whole = false;
  }
  const PipelineStep again = pipeline_step(untied(0, 4), plan, {2, 1}, none, {4, 0});
  // The only layer of a stage is repeated within its backward, which needs no output.
  const double second = costs[2].repeated_flops / all, first = costs[1].repeated_flops / all;
  EXPECT_NEAR(again.time.total_s() - step.time.total_s(), 4 * second + first, 1e-9);
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
  plan.orders = orders_of(plan.lists);
  plan.parts = {{{{0, 2}, 1, 1}}, {{{2, 3}, 1, 1}}, {{{3, 4}, 1, 1}}, {{{4, 6}, 1, 1}}};
  const PipelineStep step = pipeline_step(options, plan, {2, 2}, slow, {});
  EXPECT_NEAR(step.time.total_s(), 2 * 1000 * 1e-3 / 2, 1e-9) << "once forward and once back";
  EXPECT_EQ(step.sent[0].total().inter, 0);
  EXPECT_EQ(step.sent[1][OperationKind::send].inter, 1000);
  EXPECT_EQ(step.sent[1][OperationKind::send].intra, 1000);
}

/// The first and the last of four stages, on different nodes, send each other a border per turn past those in the middle.
TEST(PipelineStepOf, CountsWhatASkipConnectionSends) {
  zero::EngineOptions options = untied(0, 4);
  options.model.n_layer = 4;
  PipelinePlan plan = two_stages(4);
  plan.shape.stages = 4;
  plan.lists = pipeline::lists_of(pipeline::Schedule::one_f_one_b, plan.shape);
  plan.orders = orders_of(plan.lists);
  plan.parts = {{{{0, 2}, 4, 4}}, {{{2, 3}, 3, 3}}, {{{3, 4}, 2, 2}}, {{{4, 6}, 1, 1}}};
  const PipelineStep without = pipeline_step(options, plan, {2, 2}, two_levels(), {1, 0});
  plan.shape.skip = true;
  const PipelineStep with = pipeline_step(options, plan, {2, 2}, two_levels(), {1, 0});
  for (const std::size_t stage : {0U, 1U, 2U, 3U}) {
    const Bytes &less = without.sent[stage][OperationKind::send], &more = with.sent[stage][OperationKind::send];
    EXPECT_EQ(more.intra, less.intra) << stage;
    EXPECT_EQ(more.inter - less.inter, stage == 0 || stage == 3 ? 4 * 1000 : 0) << stage;
  }
  EXPECT_GE(with.time.total_s(), without.time.total_s());
}

/// A network whose links within nodes take most of a step, and the same without any time.
NetworkModel slow_in_nodes() {
  NetworkModel slow = two_levels();
  slow.node = Link{0, 1e-6};
  return slow;
}
NetworkModel free_in_nodes() {
  NetworkModel none = slow_in_nodes();
  none.node = Link{};
  none.sum_s_per_byte = 0;
  return none;
}

/// The first buckets of a stage are reduced while its last backward pass goes on, and updated parameters arrive during the
/// first forward pass of the next step. In stages 2 and 3 of ZeRO every turn has reductions, and in stage 3 gathers.
TEST(PipelineStepOf, HidesReductionsAndGathersBehindItsPasses) {
  const auto step_of = [&](int stage, bool overlap, const NetworkModel& network) {
    zero::EngineOptions options = untied(stage, 24);  // three rounds of four turns
    options.gradients.overlap = overlap;
    return pipeline_step(options, two_stages(12), {2, 2}, network, {40, 0});
  };
  for (const int stage : {0, 1, 2, 3}) {
    const PipelineStep hidden = step_of(stage, true, slow_in_nodes()), waiting = step_of(stage, false, slow_in_nodes()),
                       alone = step_of(stage, true, free_in_nodes());
    const double all = waiting.time.communication_s - alone.time.communication_s;  // of reductions and gathers
    ASSERT_GT(all, 0.1);
    if (stage < 3) {  // without overlap nothing is gathered ahead, and units stay in other cases
      EXPECT_EQ(hidden.time.communication_s, waiting.time.communication_s);
      EXPECT_EQ(hidden.sent[0].total().total(), waiting.sent[0].total().total());
    }
    EXPECT_GT(hidden.time.total_s(), alone.time.total_s());
    EXPECT_LT(hidden.time.total_s() - alone.time.total_s(), (stage < 2 ? 0.8 : 0.2) * all) << "stage " << stage;
    EXPECT_GT(waiting.time.total_s() - alone.time.total_s(), 0.8 * all) << "stage " << stage;
  }
}

/// Without overlap the passes of stage 3 wait for their gathers, and so does the stage that needs their borders.
TEST(PipelineStepOf, APassThatWaitsForItsGathersDelaysTheOtherStage) {
  const auto total_s = [&](int stage, const NetworkModel& network) {
    zero::EngineOptions options = untied(stage, 2);
    options.gradients.overlap = false;
    options.zero.prefetch_units = 0;
    return pipeline_step(options, two_stages(1), {2, 2}, network, {1e-3, 0}).time.total_s();
  };
  const auto waits_s = [&](int stage) { return total_s(stage, slow_in_nodes()) - total_s(stage, free_in_nodes()); };
  const auto units = model::layout(untied(0, 4).model);
  const auto gather_s = [&](const std::vector<std::size_t>& gathered) {
    double bytes = 0;  // of the larger shards
    for (const std::size_t u : gathered) {
      bytes += static_cast<double>(zero::shard_of(units[u].elements, 0, 2).size() * sizeof(float));
    }
    return bytes * 1e-6;
  };
  // One turn: F0 of units 0 and 1 on the first stage; F0 and B0 of 2 and 3 on the second one; B0 of 1, which has stayed.
  // Unit 2 is gathered again after the head.
  const double published = std::max(gather_s({0, 1}), gather_s({2, 3}));
  EXPECT_NEAR(waits_s(3), waits_s(2) - published + gather_s({0, 1, 2, 3, 2}), 1e-9);
}

/// Two nodes of one turn compute one after the other, each with the processors of both; so do two ranks of a node.
TEST(PipelineStepOf, ComputesFasterWhileOthersThatShareItsProcessorsWait) {
  NetworkModel none = two_levels();
  none.node = none.across = Link{};
  none.sum_s_per_byte = 0;
  const auto total_s = [&](const Cluster& cluster, std::size_t turns, const Speedup& speedup) {
    return pipeline_step(untied(0, turns), two_stages(turns), cluster, none, {1, 0, speedup}).time.total_s();
  };
  const double own = total_s({2, 1}, 1, {});
  EXPECT_NEAR(own, 1, 1e-9);
  EXPECT_NEAR(total_s({2, 1}, 1, {2, 2}), own / 2, 1e-9);
  EXPECT_NEAR(total_s({2, 1}, 1, {1, 2}), own, 1e-9) << "a rank that has a node to itself when all compute, too";
  EXPECT_NEAR(total_s({1, 2}, 1, {1, 2}), own / 2, 1e-9);
  EXPECT_NEAR(total_s({2, 1}, 1, {1.5, 2}), own / 1.5, 1e-9);
  // As long as both have something to compute, nothing is gained.
  const double many = total_s({2, 1}, 64, {}), shared = total_s({2, 1}, 64, {2, 2});
  EXPECT_LT(shared, many);
  EXPECT_GE(shared, 0.5 - 1e-9) << "half of all operations at the speed of both";
  EXPECT_LT(shared, 0.5 + 1.0 / 64);
}

/// A stage on two nodes: the links of these carry a border and a part of the gradients each turn, one direction after the
/// other at worst, since an exchange of gradients needs both.
TEST(PipelineStepOf, BordersAndReductionsShareTheLinksOfNodes) {
  NetworkModel slow = two_levels();
  slow.node = Link{};
  slow.across = Link{0, 1e-6};
  slow.sum_s_per_byte = 0;
  const auto seconds = [&](int stage, std::size_t turns, std::size_t border_bytes) {
    PipelinePlan plan = two_stages(turns);
    plan.border_bytes = border_bytes;
    return pipeline_step(untied(stage, 2 * turns), plan, {4, 1}, slow, {}).time.total_s();
  };
  const auto of_a_turn = [&](int stage, std::size_t border_bytes) {
    return (seconds(stage, 64, border_bytes) - seconds(stage, 32, border_bytes)) / 32;
  };
  const double s_per_byte = 1e-6 / 2;  // it was measured with two ranks
  const double reduced = std::max(bytes_of_units(0, 1), bytes_of_units(2, 3)) / 2 * s_per_byte;
  EXPECT_NEAR(of_a_turn(0, 100'000), 100'000 * s_per_byte, 1e-6);
  EXPECT_NEAR(of_a_turn(2, 1), reduced, 1e-3);
  EXPECT_GT(of_a_turn(2, 100'000), reduced + 100'000 * s_per_byte - 1e-3);
  EXPECT_LT(of_a_turn(2, 100'000), reduced + 2 * 100'000 * s_per_byte);
}

/// Borders of a step that computes long enough between them pass at once.
TEST(PipelineStepOf, BordersUseTheCreditOfALink) {
  const auto total_s = [](double s_per_byte, double credit_bytes) {
    NetworkModel network = two_levels();
    network.across = Link{0, s_per_byte, credit_bytes};
    return pipeline_step(untied(0, 4), two_stages(), {2, 1}, network, {10, 0}).time.total_s();
  };
  const double border = 1000 * 1e-3 / 2;
  const double free = total_s(0, 0), slow = total_s(1e-3, 0);
  EXPECT_GT(slow, free + border);
  EXPECT_NEAR(total_s(1e-3, 1000), free, 1e-3);
  EXPECT_NEAR(total_s(1e-3, 1), slow, 1e-2);
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

}  // namespace of_pipeline_step_test
}  // namespace shoal::plan
