// SPDX-License-Identifier: Apache-2.0
// Compares every strategy with a simulation of all nodes in double, on nodes of one or two ranks, at ZeRO stage 0 and at
// another one. Strategies do not depend on the ranks of a node or on the stage (sync/sub_shards.hpp does), so not every
// combination is tested: half of the strategies run on nodes of one rank, the others on nodes of two.
#include "shoal/sync/synchroniser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sync/simulation.hpp"
#include "sync/toy.hpp"

namespace shoal::sync::test {
namespace of_synchroniser_test {

constexpr std::size_t steps = 9;

struct Strategy {
  std::string name;
  SyncOptions options;
};

std::vector<Strategy> strategies() {
  std::vector<Strategy> result;
  const auto add = [&](const std::string& name, const std::string& kind, const SyncOptions& more = {}) {
    SyncOptions o = more;
    o.kind = value_named<SyncKind>(kind).value();
    o.localsgd_frequency = 2;
    o.slowmo_frequency = 4;
    o.slowmo_lr = 0.7;
    result.push_back({name, o});
  };
  // On nodes of one rank:
  add("localsgd", "localsgd");
  add("sgp_overlapped", "sgp", {.sgp_overlap = true});
  add("slowmo_held_by_all", "slowmo", {.slowmo_memory_efficient = false});
  add("slowmo_over_sgp", "slowmo", {.slowmo_base = SyncKind::sgp});
  add("diloco", "diloco");
  add("slowmo_in_int8", "slowmo", {.average_dtype = AverageType::int8});
  add("localsgd_late", "localsgd", {.average_overlap = true});
  add("slowmo_late_in_bf16", "slowmo", {.average_dtype = AverageType::bf16, .average_overlap = true, .average_delay = 2});
  // On nodes of two:
  add("sgp", "sgp");
  add("slowmo", "slowmo");
  add("slowmo_over_sgp_overlapped", "slowmo", {.slowmo_base = SyncKind::sgp, .sgp_overlap = true});
  add("slowmo_over_sgp_held_by_all", "slowmo", {.slowmo_base = SyncKind::sgp, .slowmo_memory_efficient = false});
  add("slowmo_in_bf16", "slowmo", {.average_dtype = AverageType::bf16});
  add("diloco_in_int8", "diloco", {.average_dtype = AverageType::int8});
  add("slowmo_late_in_int8", "slowmo", {.average_dtype = AverageType::int8, .average_overlap = true});
  add("diloco_late", "diloco", {.average_overlap = true, .average_delay = 3});
  return result;
}

/// The first half of the strategies is tested on nodes of one rank, the second half on nodes of two.
int ranks_per_node(std::size_t strategy) { return strategy < strategies().size() / 2 ? 1 : 2; }

/// Indices of the strategies whose nodes can be made of these ranks.
std::vector<std::size_t> runnable() {
  std::vector<std::size_t> result;
  for (std::size_t strategy = 0; strategy < strategies().size(); ++strategy) {
    if (shoal::test::world().size() % ranks_per_node(strategy) == 0) result.push_back(strategy);
  }
  return result;
}

/// The parameter is the index of a strategy.
class SynchroniserTest : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { divide_into_nodes(ranks_per_node(GetParam())); }
  static SyncOptions options() { return strategies()[GetParam()].options; }
  static std::size_t node() { return static_cast<std::size_t>(shoal::test::world().across().rank()); }
  static std::size_t nodes() { return static_cast<std::size_t>(shoal::test::world().nodes()); }

  /// Bound on the rounding error of one synchronization, relative to how far parameters have moved: in 16 bits four times
  /// 2^-9. In 8 bits a quantized value is off by at most 2^-7 of the largest in its block (kernels/quantize.hpp: a value
  /// that is as large, but of the other sign): once for a node's difference, once for the mean's, and as much again for the
  /// residuals that are added to them.
  static double error_of_a_mean() {
    return options().average_dtype == AverageType::fp32   ? 0
           : options().average_dtype == AverageType::bf16 ? 4 * 0x1p-9
                                                          : 4 * 0x1p-7;
  }

  static void begin(Toy& toy) {
    toy.fill([](std::size_t u, std::size_t i) { return start(first_of(u) + i); });
    toy.synchroniser().start_from_masters();
  }
  static void step(Toy& toy, std::size_t t) {
    toy.train(t, local_rate, [&](std::size_t u, std::size_t i, float x) { return x - target(node(), t, first_of(u) + i); });
    toy.synchroniser().after_step(t, local_rate);
  }
};

TEST_P(SynchroniserTest, FollowsTheSimulationInTwoStagesWithTheSameBits) {
  std::vector<std::vector<float>> of_stage_0;
  for (const int stage : {0, 1 + static_cast<int>(GetParam() % 3)}) {
    SCOPED_TRACE(stage);
    Toy toy(options(), units(), stage, local_momentum);
    Simulation simulation(options(), nodes());
    begin(toy);
    std::size_t checks = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
      step(toy, t);
      if (stage == 0) simulation.step(t);
      if (t % 4 > 1) continue;  // whole() takes longer than a step
      const std::vector<float> x = toy.whole();
      if (stage == 0) {
        of_stage_0.push_back(x);
        // Parameters stay below 4; a step rounds them a dozen times at most, and this problem amplifies no error.
        const double means = static_cast<double>(t) / 2, lost = error_of_a_mean() * simulation.farthest();
        const double tolerance = static_cast<double>(t) * 12 * 4 * 0x1p-24 + means * lost;
        double largest = 0;
        for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - simulation.x[node()][i]));
        ASSERT_LE(largest, tolerance) << "after step " << t;
        if (lost > 0 && means > 2 && nodes() > 1) {
          ASSERT_GT(largest, 1e-5) << "no effect of " << name_of(options().average_dtype);
        }
      }
      ASSERT_EQ(x, of_stage_0[checks++]) << "after step " << t;
    }
    EXPECT_EQ(toy.memory().taken(), toy.planned());
  }
}

TEST_P(SynchroniserTest, NodesHaveTheSameBitsExactlyWhenTheScheduleSaysSo) {
  Toy toy(options(), units(), 1, local_momentum);
  begin(toy);
  for (std::size_t t = 1; t <= steps; ++t) {
    step(toy, t);
    std::vector<float> mine = toy.whole(), of_node_0 = mine;
    shoal::test::world().across().broadcast(comm::bytes_of(Span<float>(of_node_0)), 0).wait();
    std::vector<std::int64_t> differs{mine != of_node_0 ? 1 : 0};
    shoal::test::world().all().all_reduce(Span<std::int64_t>(differs), comm::Reduce::max).wait();
    const bool halved = nodes() == 2 && toy.synchroniser().schedule().actions_after(t).push && !options().sgp_overlap;
    if (halved) continue;  // two nodes that average with each other agree, which the schedule does not promise
    EXPECT_EQ(differs[0] != 0, toy.synchroniser().schedule().nodes_differ_after(t)) << "after step " << t;
  }
}

/// A run whose nodes differ goes on with outer updates that each node makes by itself.
TEST_P(SynchroniserTest, NodesThatDifferBeginOuterUpdatesOfTheirOwnFromTheirMean) {
  Toy toy(options(), units(), 1, local_momentum);
  const SyncSchedule& schedule = toy.synchroniser().schedule();
  if (!schedule.has_outer() || schedule.averages_outer()) return;
  begin(toy);
  step(toy, 1);
  const std::vector<float> before = toy.whole();
  toy.synchroniser().restore({.name = "a checkpoint of another kind", .steps = 1, .same_kind = false, .numbers = {}}, {});
  EXPECT_EQ(toy.whole(), before) << "each node keeps its parameters";
  for (std::size_t t = 2; t <= steps; ++t) {
    step(toy, t);
    if (schedule.nodes_differ_after(t)) continue;
    std::vector<float> of_node_0 = toy.whole();
    shoal::test::world().across().broadcast(comm::bytes_of(Span<float>(of_node_0)), 0).wait();
    EXPECT_EQ(toy.whole(), of_node_0) << "after step " << t;
  }
}

TEST_P(SynchroniserTest, TheMeanIsSwappedInAndTheNodesOwnRestored) {
  for (const int stage : {0, 2}) {
    Toy toy(options(), units(), stage, local_momentum);
    Simulation simulation(options(), nodes());
    begin(toy);
    for (std::size_t t = 1; t <= 3; ++t) {
      step(toy, t);
      simulation.step(t);
    }
    const std::vector<float> own = toy.whole();
    toy.synchroniser().swap_in_mean();
    const std::vector<float> shown = toy.whole();
    const std::vector<double> mean = simulation.mean();
    const double tolerance = 40 * 4 * 0x1p-24 + error_of_a_mean() * simulation.farthest();
    for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(shown[i], mean[i], tolerance);
    toy.synchroniser().restore_own();
    EXPECT_EQ(toy.whole(), own);
  }
}

/// A checkpoint lists every element of what nodes have in common on one rank, and of a node's own on one rank of the node.
TEST_P(SynchroniserTest, ACheckpointListsEveryElementOnce) {
  Toy toy(options(), units(), 0, local_momentum);
  begin(toy);
  step(toy, 1);
  std::size_t tensors = 0;
  for (const model::UnitLayout& unit : units()) tensors += unit.parameter_count();
  const auto copies = [&](comm::Communicator& group, const std::vector<NamedSlice>& slices) {  // of the parameters' size
    std::vector<std::int64_t> sum{0};
    for (const NamedSlice& slice : slices) sum[0] += static_cast<std::int64_t>(slice.range.size());
    group.all_reduce(Span<std::int64_t>(sum), comm::Reduce::sum).wait();
    EXPECT_EQ(static_cast<std::size_t>(sum[0]) % tensors, 0U);
    return static_cast<std::size_t>(sum[0]) / tensors;
  };
  comm::Communicator &all = shoal::test::world().all(), &node = shoal::test::world().node();
  Synchroniser& synchroniser = toy.synchroniser();
  const SyncSchedule& schedule = synchroniser.schedule();
  const bool several = nodes() > 1, differ = schedule.nodes_differ_after(1);
  const std::size_t moments = 1;  // the optimizer's momentum
  const std::size_t outer = schedule.has_outer() ? 2 : 0;
  const std::size_t common_outer = schedule.averages_outer() ? outer : 0;
  const std::size_t reference = options().average_dtype != AverageType::fp32 && several ? 1 : 0;
  const std::size_t lost = options().average_dtype == AverageType::int8 && several ? 1 : 0;
  const std::size_t pushed = options().sgp_overlap && several ? 2 : 0;
  SyncState state = synchroniser.state(1);
  EXPECT_EQ(copies(all, synchroniser.common_parameters()), 1U);
  EXPECT_EQ(copies(all, state.common), (differ ? 0 : 1) + (several ? 0 : moments) + reference + common_outer);
  EXPECT_EQ(copies(node, state.own), (differ ? 1 : 0) + (several ? moments : 0) + lost + (outer - common_outer) + pushed);
  // A mean in flight: what each node sent, and the mean, unless that is what nodes have in common anyway.
  if (!schedule.overlaps()) return;
  std::size_t t = 1;
  while (!synchroniser.mean_in_flight()) step(toy, ++t);
  state = synchroniser.state(t);
  EXPECT_EQ(copies(all, state.common), reference + common_outer + (reference == 0 ? 1 : 0));
  EXPECT_EQ(copies(node, state.own), 1 + moments + lost + 1);
}

INSTANTIATE_TEST_SUITE_P(Strategies, SynchroniserTest, testing::ValuesIn(runnable()),
                         [](const auto& strategy) { return strategies()[strategy.param].name; });

}  // namespace of_synchroniser_test
}  // namespace shoal::sync::test
