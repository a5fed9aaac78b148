// SPDX-License-Identifier: Apache-2.0
// Every strategy against a simulation of all nodes in double, on nodes of one and of two ranks, in all stages of ZeRO.
#include "shoal/sync/synchroniser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "sync/toy.hpp"

namespace shoal::sync::test {
namespace {

constexpr double rate = 0.1, momentum = 0.9;
constexpr std::size_t steps = 9;

/// Shards of several pieces, of a part of one, and none. No gaps between tensors, which no optimizer writes to.
std::vector<model::UnitLayout> units() {
  std::vector<model::UnitLayout> result(3);
  const std::size_t rows[] = {41, 3, 90};
  for (std::size_t u = 0; u < result.size(); ++u) {
    result[u].name = "unit " + std::to_string(u);
    result[u].add("weight " + std::to_string(u), {rows[u], 32}, 0);
    result[u].add("bias " + std::to_string(u), {32}, 0);
  }
  return result;
}

std::size_t elements() {
  std::size_t sum = 0;
  for (const model::UnitLayout& unit : units()) sum += unit.elements;
  return sum;
}
std::size_t first_of(std::size_t unit) {
  std::size_t first = 0;
  for (std::size_t u = 0; u < unit; ++u) first += units()[u].elements;
  return first;
}

/// A number of about 1 from small integers: exact in float.
float target(std::size_t node, std::size_t step, std::size_t element) {
  return static_cast<float>((element * 37 + node * 101 + step * 53) % 257) / 128.0F - 1.0F;
}
float start(std::size_t element) { return static_cast<float>(element % 33) / 16.0F - 1.0F; }

/// All nodes at once, element by element, in double.
class Simulation {
 public:
  Simulation(const SyncOptions& options, std::size_t nodes)
      : options_(options), schedule_(options, static_cast<int>(nodes)), x(nodes), v_(nodes), old_(nodes), u_(nodes) {
    for (std::size_t n = 0; n < nodes; ++n) {
      for (std::size_t i = 0; i < elements(); ++i) x[n].push_back(start(i));
      old_[n] = x[n];
      v_[n].assign(elements(), 0);
      u_[n].assign(elements(), 0);
    }
  }

  void step(std::size_t t) {
    for (std::size_t n = 0; n < x.size(); ++n) {
      for (std::size_t i = 0; i < elements(); ++i) {
        const double g = x[n][i] - target(n, t, i);
        v_[n][i] = t == 1 ? g : momentum * v_[n][i] + g;
        x[n][i] -= rate * v_[n][i];
      }
    }
    for (std::size_t i = 0; i < elements(); ++i) together(t, i);
    sent_ = x;
  }

  std::vector<double> mean() const {
    std::vector<double> result(elements());
    for (const auto& node : x) {
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += node[i] / static_cast<double>(x.size());
    }
    return result;
  }

 private:
  void together(std::size_t t, std::size_t i) {
    const Actions actions = schedule_.after(t);
    const std::size_t nodes = x.size();
    double mean_now = 0;
    if (options_.sgp_overlap && t > 1 && schedule_.after(t - 1).push) {  // what was sent a step ago
      const auto hop = static_cast<std::size_t>(Schedule::hop(schedule_.pushes_before(t - 1), static_cast<int>(nodes)));
      for (std::size_t n = 0; n < nodes; ++n) x[n][i] += (sent_[(n + nodes - hop) % nodes][i] - sent_[n][i]) / 2;
    }
    for (const auto& node : x) mean_now += node[i] / static_cast<double>(nodes);
    if (actions.push && !options_.sgp_overlap) {
      const auto hop = static_cast<std::size_t>(Schedule::hop(schedule_.pushes_before(t), static_cast<int>(nodes)));
      std::vector<double> before;
      for (const auto& node : x) before.push_back(node[i]);
      for (std::size_t n = 0; n < nodes; ++n) x[n][i] = (before[n] + before[(n + nodes - hop) % nodes]) / 2;
    }
    if (actions.average || (actions.outer && schedule_.averages_outer())) {
      for (auto& node : x) node[i] = mean_now;
    }
    if (!actions.outer) return;
    for (std::size_t n = 0; n < nodes; ++n) {
      const double moved = old_[n][i] - x[n][i];
      if (options_.kind == "diloco") {
        u_[n][i] = options_.slowmo_momentum * u_[n][i] + moved;
        old_[n][i] -= options_.slowmo_lr * (moved + options_.slowmo_momentum * u_[n][i]);
      } else {
        u_[n][i] = options_.slowmo_momentum * u_[n][i] + moved / rate;
        old_[n][i] -= options_.slowmo_lr * rate * u_[n][i];
      }
      x[n][i] = old_[n][i];
    }
  }

  SyncOptions options_;
  Schedule schedule_;

 public:
  std::vector<std::vector<double>> x;  // [node][element]

 private:
  std::vector<std::vector<double>> v_, old_, u_, sent_;
};

struct Strategy {
  std::string name;
  SyncOptions options;
};

std::vector<Strategy> strategies() {
  std::vector<Strategy> result;
  const auto add = [&](const std::string& name, const std::string& kind, const std::string& base, bool efficient,
                       bool overlap, const std::string& sent = "fp32") {
    SyncOptions o;
    o.kind = kind;
    o.localsgd_frequency = 2;
    o.slowmo_frequency = 4;
    o.slowmo_lr = 0.7;
    o.slowmo_base = base;
    o.slowmo_memory_efficient = efficient;
    o.sgp_overlap = overlap;
    o.average_dtype = sent;
    result.push_back({name, o});
  };
  add("localsgd", "localsgd", "localsgd", true, false);
  add("sgp", "sgp", "localsgd", true, false);
  add("sgp_overlapped", "sgp", "localsgd", true, true);
  add("slowmo", "slowmo", "localsgd", true, false);
  add("slowmo_held_by_all", "slowmo", "localsgd", false, false);
  add("slowmo_over_sgp", "slowmo", "sgp", true, false);
  add("slowmo_over_sgp_overlapped", "slowmo", "sgp", true, true);
  add("slowmo_over_sgp_held_by_all", "slowmo", "sgp", false, false);
  add("diloco", "diloco", "localsgd", true, false);
  add("localsgd_in_bf16", "localsgd", "localsgd", true, false, "bf16");
  add("slowmo_in_bf16", "slowmo", "localsgd", true, false, "bf16");
  add("diloco_in_bf16", "diloco", "localsgd", true, false, "bf16");
  return result;
}

/// (ranks per node, strategy)
class SynchroniserTest : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  void SetUp() override {
    if (shoal::test::world().size() % per_node() != 0) GTEST_SKIP();
    divide_into_nodes(per_node());
  }
  static int per_node() { return std::get<0>(GetParam()); }
  static SyncOptions options() { return strategies()[std::get<1>(GetParam())].options; }
  static std::size_t node() { return static_cast<std::size_t>(shoal::test::world().across().rank()); }
  static std::size_t nodes() { return static_cast<std::size_t>(shoal::test::world().nodes()); }

  /// In 16 bits a meeting makes four roundings of 2^-9 of how far parameters have moved, which is less than 4.
  static double of_a_meeting() { return options().average_dtype == "fp32" ? 0 : 4 * 4 * 0x1p-9; }

  static void begin(Toy& toy) {
    toy.fill([](std::size_t u, std::size_t i) { return start(first_of(u) + i); });
    toy.synchroniser().begin();
  }
  static void step(Toy& toy, std::size_t t) {
    toy.train(t, rate, [&](std::size_t u, std::size_t i, float x) { return x - target(node(), t, first_of(u) + i); });
    toy.synchroniser().after(t, rate);
  }
};

TEST_P(SynchroniserTest, FollowsTheSimulationInEveryStageWithTheSameBits) {
  std::vector<std::vector<float>> of_stage_0;
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    Toy toy(options(), units(), stage, momentum);
    Simulation simulation(options(), nodes());
    begin(toy);
    std::size_t checks = 0;
    for (std::size_t t = 1; t <= steps; ++t) {
      step(toy, t);
      if (stage == 0) simulation.step(t);
      if (t % 4 > 1) continue;  // gathering takes longer than the rest
      const std::vector<float> x = toy.whole();
      if (stage == 0) {
        of_stage_0.push_back(x);
        // Parameters stay below 4; a step makes a dozen roundings of that at most, and none grows in this problem.
        const double meetings = static_cast<double>(t) / 2;
        const double tolerance = static_cast<double>(t) * 12 * 4 * 0x1p-24 + meetings * of_a_meeting();
        double largest = 0;
        for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - simulation.x[node()][i]));
        ASSERT_LE(largest, tolerance) << "after step " << t;
        if (of_a_meeting() > 0 && meetings > 1 && nodes() > 1) {
          ASSERT_GT(largest, 1e-5) << "16 bits show";
        }
      }
      ASSERT_EQ(x, of_stage_0[checks++]) << "after step " << t;
    }
    EXPECT_EQ(toy.memory().taken(), toy.planned());
  }
}

TEST_P(SynchroniserTest, NodesHaveTheSameBitsExactlyWhenTheScheduleSaysSo) {
  Toy toy(options(), units(), 1, momentum);
  begin(toy);
  for (std::size_t t = 1; t <= steps; ++t) {
    step(toy, t);
    std::vector<float> mine = toy.whole(), of_node_0 = mine;
    shoal::test::world().across().broadcast(comm::bytes_of(Span<float>(of_node_0)), 0).wait();
    std::vector<std::int64_t> differs{mine != of_node_0 ? 1 : 0};
    shoal::test::world().all().all_reduce(Span<std::int64_t>(differs), comm::Reduce::max).wait();
    const bool halved = nodes() == 2 && toy.synchroniser().schedule().after(t).push && !options().sgp_overlap;
    if (halved) continue;  // half of each other's is the same for both: more than the schedule promises
    EXPECT_EQ(differs[0] != 0, toy.synchroniser().schedule().differ(t)) << "after step " << t;
  }
}

TEST_P(SynchroniserTest, TheAverageIsShownAndTakenBack) {
  for (const int stage : {0, 2}) {
    Toy toy(options(), units(), stage, momentum);
    Simulation simulation(options(), nodes());
    begin(toy);
    for (std::size_t t = 1; t <= 3; ++t) {
      step(toy, t);
      simulation.step(t);
    }
    const std::vector<float> own = toy.whole();
    toy.synchroniser().show_average();
    const std::vector<float> shown = toy.whole();
    const std::vector<double> mean = simulation.mean();
    for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(shown[i], mean[i], 40 * 4 * 0x1p-24 + of_a_meeting());
    toy.synchroniser().hide_average();
    EXPECT_EQ(toy.whole(), own);
  }
}

/// Every element of what all nodes share is on one rank, and so is every element of a node's own on one rank of it.
TEST_P(SynchroniserTest, StatesAreHeldOnce) {
  Toy toy(options(), units(), 0, momentum);
  begin(toy);
  step(toy, 1);
  const auto count = [](comm::Communicator& group, const std::vector<NamedSlice>& slices) {
    std::vector<std::int64_t> sum{0};
    for (const NamedSlice& slice : slices) sum[0] += static_cast<std::int64_t>(slice.range.size());
    group.all_reduce(Span<std::int64_t>(sum), comm::Reduce::sum).wait();
    return static_cast<std::size_t>(sum[0]);
  };
  std::size_t tensors = 0;
  for (const model::UnitLayout& unit : units()) tensors += unit.parameter_count();
  Synchroniser& synchroniser = toy.synchroniser();
  const Schedule& schedule = synchroniser.schedule();
  const std::size_t outer = schedule.has_outer() ? 2 : 0;
  const std::size_t sent = options().sgp_overlap && nodes() > 1 ? 2 : 0;
  comm::Communicator& all = shoal::test::world().all();
  EXPECT_EQ(count(all, synchroniser.common_parameters()), tensors);
  const std::size_t in_common = options().average_dtype != "fp32" && nodes() > 1 ? 1 : 0;
  EXPECT_EQ(count(all, synchroniser.common_slices()), ((schedule.averages_outer() ? outer : 0) + in_common) * tensors);
  EXPECT_EQ(count(shoal::test::world().node(), synchroniser.node_slices()),
            ((schedule.averages_outer() ? 0 : outer) + sent) * tensors);
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, std::size_t>>& info) {
  return strategies()[std::get<1>(info.param)].name + "_" + std::to_string(std::get<0>(info.param)) + "_per_node";
}
INSTANTIATE_TEST_SUITE_P(Strategies, SynchroniserTest,
                         testing::Combine(testing::Values(1, 2), testing::Range<std::size_t>(0, strategies().size())),
                         name_of);

}  // namespace
}  // namespace shoal::sync::test
