// SPDX-License-Identifier: Apache-2.0
// On queued groups every strategy has the bits that it has on groups that the host drives.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/queued_wrapper.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/zero/buckets.hpp"
#include "sync/simulation.hpp"
#include "sync/toy.hpp"

namespace shoal::sync::test {
namespace of_queued_test {

constexpr std::size_t steps = 6;

struct Strategy {
  std::string name;
  SyncOptions options;
};

std::vector<Strategy> strategies() {
  std::vector<Strategy> result;
  const auto add = [&](const std::string& name, SyncKind kind, const SyncOptions& more = {}) {
    SyncOptions o = more;
    o.kind = kind;
    o.localsgd_frequency = 2;
    o.slowmo_frequency = 4;
    o.slowmo_lr = 0.7;
    result.push_back({name, o});
  };
  add("sgp", SyncKind::sgp);
  add("overlapped sgp", SyncKind::sgp, {.sgp_overlap = true});
  add("slowmo", SyncKind::slowmo);
  add("late localsgd", SyncKind::localsgd, {.average_overlap = true});
  add("late slowmo in int8", SyncKind::slowmo, {.average_dtype = AverageType::int8, .average_overlap = true});
  add("diloco in bf16", SyncKind::diloco, {.average_dtype = AverageType::bf16});
  return result;
}

/// Number of units of which this rank has a part. Each part is smaller than a message.
std::size_t shards_of(const comm::Communicator& node) {
  std::size_t count = 0;
  for (const model::UnitLayout& unit : units()) {
    count += zero::shard_of(unit.elements, node.rank(), node.size()).empty() ? 0U : 1U;
  }
  return count;
}

/// The parameters of the node after each step.
std::vector<std::vector<float>> trained(const SyncOptions& options, const ToyGroups& groups) {
  const auto node = static_cast<std::size_t>(groups.across.rank());
  Toy toy(options, units(), 1, local_momentum, groups);
  toy.fill([](std::size_t u, std::size_t i) { return start(first_of(u) + i); });
  toy.synchroniser().start_from_masters();
  std::vector<std::vector<float>> result;
  for (std::size_t t = 1; t <= steps; ++t) {
    toy.train(t, local_rate, [&](std::size_t u, std::size_t i, float x) { return x - target(node, t, first_of(u) + i); });
    toy.synchroniser().after_step(t, local_rate);
    if (groups.across.queued()) {
      EXPECT_EQ(shoal::detail::pump_function, nullptr) << "something is in flight after step " << t;
    }
    result.push_back(toy.whole());
  }
  return result;
}

TEST(QueuedGroups, LeaveTheBitsOfEveryStrategy) {
  for (const int ranks_per_node : {1, 2}) {
    if (shoal::test::world().size() % ranks_per_node != 0) continue;
    divide_into_nodes(ranks_per_node);
    const ToyGroups host;
    comm::QueuedWrapper node(host.node), across(host.across), self(host.self);
    for (const Strategy& strategy : strategies()) {
      const std::vector<std::vector<float>> driven = trained(strategy.options, host);
      const int before = across.exchanges();
      comm::reset_traffic();
      const std::vector<std::vector<float>> queued = trained(strategy.options, {node, across, self});
      for (std::size_t t = 0; t < steps; ++t) {
        EXPECT_EQ(queued[t], driven[t]) << strategy.name << ", nodes of " << ranks_per_node << ", step " << t + 1;
      }
      if (!pushes(strategy.options) || across.size() == 1) continue;
      const std::size_t in_a_step = strategy.options.sgp_overlap ? 1 : shards_of(node);
      EXPECT_EQ(across.exchanges() - before, static_cast<int>(steps * in_a_step)) << strategy.name;
      EXPECT_GT(comm::traffic().at("send").total(), 0U);
    }
  }
}

}  // namespace of_queued_test
}  // namespace shoal::sync::test
