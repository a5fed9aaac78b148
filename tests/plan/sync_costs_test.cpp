// SPDX-License-Identifier: Apache-2.0
// Nodes that train locally between synchronizations: the events of a period, and what they send.
#include "shoal/plan/sync_costs.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "networks.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::plan {
namespace of_sync_costs_test {

constexpr Cluster two_by_two = {2, 2}, four_nodes = {4, 1};

sync::SyncOptions sync_of(const char* kind) {
  sync::SyncOptions options;
  options.kind = value_named<sync::SyncKind>(kind).value();
  options.localsgd_frequency = 4;
  options.slowmo_frequency = 12;
  return options;
}

/// Number of steps of a period after which nodes synchronize.
std::size_t busy_steps(const Period& period) {
  std::size_t steps = 0;
  for (const SyncEvent& event : period.events) {
    if (event.actions.average || event.actions.push || event.actions.outer) steps += event.times;
  }
  return steps;
}

TEST(PeriodOf, HasEveryStepOnce) {
  for (const char* kind : {"every_step", "localsgd", "slowmo", "sgp", "diloco"}) {
    for (const int nodes : {1, 2, 5}) {
      const Period period = period_of(sync_of(kind), nodes);
      std::size_t steps = 0;
      for (const SyncEvent& event : period.events) steps += event.times * event.steps;
      EXPECT_EQ(steps, period.steps) << kind;
    }
  }
  for (const std::size_t delay : {1U, 3U, 4U, 12U}) {
    for (const char* kind : {"localsgd", "slowmo", "diloco"}) {
      sync::SyncOptions delayed = sync_of(kind);
      delayed.average_overlap = true;
      delayed.average_delay = delay;
      const Period period = period_of(delayed, 2);
      std::size_t steps = 0;
      for (const SyncEvent& event : period.events) steps += event.times * event.steps;
      EXPECT_EQ(steps, period.steps) << kind << ", " << delay;
      EXPECT_EQ(busy_steps(period), busy_steps(period_of(sync_of(kind), 2)));
    }
  }
  EXPECT_EQ(period_of(sync_of("localsgd"), 2).steps, 4U);
  EXPECT_EQ(busy_steps(period_of(sync_of("localsgd"), 2)), 1U);
  EXPECT_EQ(period_of(sync_of("slowmo"), 2).steps, 12U);
  EXPECT_EQ(busy_steps(period_of(sync_of("slowmo"), 2)), 3U);
  EXPECT_EQ(busy_steps(period_of(sync_of("diloco"), 2)), 1U);
  EXPECT_EQ(period_of(sync_of("sgp"), 5).steps, 3U) << "distances 1, 2, 4";
  EXPECT_EQ(period_of(sync_of("sgp"), 5).events.size(), 3U);
}

double elements() {
  double sum = 0;
  for (const auto& unit : model::layout(some_options(0).model)) sum += static_cast<double>(unit.elements);
  return sum;
}

StepTime time_of(const sync::SyncOptions& sync, int stage, const Cluster& cluster, double compute_s = 0) {
  zero::EngineOptions options = some_options(stage);
  options.micro_batches /= static_cast<std::size_t>(cluster.nodes);
  return step_time(options, sync, cluster.ranks_per_node, cluster, two_levels(), {compute_s, 0});
}

TEST(StepTimeOfLocalTraining, SendsAveragesOncePerPeriod) {
  const double bytes = elements() * sizeof(float);
  for (const int stage : {0, 1, 3}) {
    sync::SyncOptions sync = sync_of("localsgd");
    const StepTime time = time_of(sync, stage, two_by_two);
    // A rank's shard is half of all elements. Every fourth step it sends half of it to be reduced, and half to be gathered.
    EXPECT_NEAR(time.sent.total().inter, bytes / 2 / 2 * 2 / 4, 0.03 * bytes / 8) << stage;
    EXPECT_NEAR(time.across_per_node, bytes / 4, 0.001 * bytes);
    EXPECT_GT(time.sent.total().intra, 0);
    sync.average_dtype = sync::AverageType::bf16;
    EXPECT_NEAR(time_of(sync, stage, two_by_two).across_per_node, time.across_per_node / 2, 1) << stage;
    EXPECT_EQ(time_of(sync, stage, two_by_two).sent.total().intra, time.sent.total().intra);
  }
  sync::SyncOptions quantized = sync_of("localsgd");
  quantized.average_dtype = sync::AverageType::int8;  // codes, and a scale for every 256 of them
  EXPECT_NEAR(time_of(quantized, 1, two_by_two).across_per_node, bytes / 4 / 4 * (1 + 4.0 / 256), 0.01 * bytes / 16);
  const StepTime alone = time_of(sync_of("localsgd"), 1, four_nodes);
  EXPECT_EQ(alone.sent.total().intra, 0);
  EXPECT_NEAR(alone.sent.total().inter, 2 * 0.75 * bytes / 4, 0.01 * bytes);
  EXPECT_NEAR(time_of(sync_of("diloco"), 1, four_nodes).total_s(), alone.total_s() / 3, 0.01 * alone.total_s());
}

TEST(StepTimeOfLocalTraining, HidesDelayedAveragesBehindTheNextSteps) {
  for (const sync::AverageType type : {sync::AverageType::fp32, sync::AverageType::int8}) {
    sync::SyncOptions sync = sync_of("localsgd");
    sync.average_dtype = type;
    const StepTime at_once = time_of(sync, 1, four_nodes, 1);
    sync.average_overlap = true;
    sync.average_delay = 2;
    const StepTime delayed = time_of(sync, 1, four_nodes, 1);
    EXPECT_EQ(delayed.sent.total().inter, at_once.sent.total().inter) << name_of(type);
    EXPECT_LT(delayed.exposed_s, at_once.exposed_s / 2) << name_of(type);
  }
}

TEST(StepTimeOfLocalTraining, PushesEveryStepAndHidesItIfOverlapped) {
  const double bytes = elements() * sizeof(float);
  sync::SyncOptions sync = sync_of("sgp");
  const StepTime time = time_of(sync, 1, four_nodes, 1);
  EXPECT_NEAR(time.sent[OperationKind::send].inter, bytes, 1);
  EXPECT_NEAR(time.exposed_s, time.communication_s, 1e-9);
  sync.sgp_overlap = true;
  EXPECT_LT(time_of(sync, 1, four_nodes, 1).exposed_s, 1e-4);
  EXPECT_EQ(time_of(sync, 1, four_nodes, 1).sent[OperationKind::send].inter, time.sent[OperationKind::send].inter);
}

}  // namespace of_sync_costs_test
}  // namespace shoal::plan
