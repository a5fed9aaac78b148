// SPDX-License-Identifier: Apache-2.0
#include "shoal/sync/schedule.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shoal/sync/node_groups.hpp"

namespace shoal::sync {
namespace of_schedule_test {

/// One letter per action, in order: a average, p push, o outer update, m outer update of the mean; -: none. Steps are
/// separated by spaces.
std::string actions(const SyncOptions& options, int nodes, std::size_t steps) {
  const SyncSchedule schedule(options, nodes);
  std::string letters;
  for (std::size_t step = 1; step <= steps; ++step) {
    const Actions actions = schedule.actions_after(step);
    if (step > 1) letters += ' ';
    if (actions.average) letters += 'a';
    if (actions.push) letters += 'p';
    if (actions.outer) letters += schedule.averages_outer() ? 'm' : 'o';
    if (letters.empty() || letters.back() == ' ') letters += '-';
  }
  return letters;
}

SyncOptions options(const std::string& kind, const std::string& base = "localsgd") {
  SyncOptions o;
  o.kind = value_named<SyncKind>(kind).value();
  o.slowmo_base = value_named<SyncKind>(base).value();
  o.slowmo_frequency = 6;
  return o;
}

TEST(SyncSchedule, WhatHappensAfterWhichStep) {
  EXPECT_EQ(actions(options("every_step"), 4, 6), "- - - - - -");
  EXPECT_EQ(actions(options("localsgd"), 4, 6), "- - a - - a");
  EXPECT_EQ(actions(options("sgp"), 4, 6), "p p p p p p");
  EXPECT_EQ(actions(options("slowmo"), 4, 6), "- - a - - m");
  EXPECT_EQ(actions(options("slowmo", "sgp"), 4, 6), "p p p p p m");
  EXPECT_EQ(actions(options("diloco"), 4, 6), "- - - - - m");
  SyncOptions held = options("slowmo");
  held.slowmo_memory_efficient = false;
  EXPECT_EQ(actions(held, 4, 6), "- - a - - ao");
  held.slowmo_base = SyncKind::sgp;
  EXPECT_EQ(actions(held, 4, 6), "p p p p p po");
}

/// W: wait for parameters, f: finish the push, s: start a mean (S: with an outer update), a: apply it, p: push, o: outer
/// update of each node, g: gather in the node, R: rebuild parameters, b: local training begins.
std::string calls(const SyncOptions& options, std::size_t step, const InFlight& in_flight, int nodes = 4) {
  std::string text;
  for (const SyncCall call : SyncSchedule(options, nodes).calls_after(step, in_flight)) {
    text += "WbfsSapogR"[static_cast<std::size_t>(call)];
  }
  return text;
}

TEST(SyncSchedule, CallsFollowFromActionsAndWhatIsInFlight) {
  const InFlight nothing = {}, mean = {true, false}, push = {false, true};
  EXPECT_EQ(calls(options("localsgd"), 2, nothing), "");
  EXPECT_EQ(calls(options("localsgd"), 3, nothing), "WsagR");
  EXPECT_EQ(calls(options("diloco"), 6, nothing), "WSagR");
  EXPECT_EQ(calls(options("slowmo", "sgp"), 5, nothing), "WpgR");
  EXPECT_EQ(calls(options("slowmo", "sgp"), 5, push), "WfpgR");
  EXPECT_EQ(calls(options("slowmo", "sgp"), 6, push), "WfSagR");
  SyncOptions held = options("slowmo");
  held.slowmo_memory_efficient = false;
  EXPECT_EQ(calls(held, 6, nothing), "WsaogR");
  SyncOptions late = options("slowmo");
  late.average_overlap = true;
  late.average_delay = 3;
  EXPECT_EQ(calls(late, 3, nothing), "s") << "no node changes anything";
  EXPECT_EQ(calls(late, 5, mean), "");
  EXPECT_EQ(calls(late, 6, mean), "WagSR") << "the mean that was started after step 3, before the next one starts";
  late.average_delay = 2;
  EXPECT_EQ(calls(late, 5, mean), "WagR");
  EXPECT_EQ(calls(late, 5, nothing), "");
  SyncOptions warm = options("localsgd");
  warm.warmup_steps = 4;
  EXPECT_EQ(calls(warm, 3, nothing), "");
  EXPECT_EQ(calls(warm, 4, nothing), "WbR");
  EXPECT_EQ(calls(options("slowmo"), 6, nothing, 1), "WSagR") << "a node alone makes its outer update";
}

TEST(SyncSchedule, OneNodeHasOuterUpdatesOnly) {
  EXPECT_EQ(actions(options("localsgd"), 1, 6), "- - - - - -");
  EXPECT_EQ(actions(options("sgp"), 1, 6), "- - - - - -");
  EXPECT_EQ(actions(options("slowmo"), 1, 6), "- - - - - m");
  EXPECT_EQ(actions(options("diloco"), 1, 6), "- - - - - m");
  EXPECT_FALSE(SyncSchedule(options("slowmo"), 1).nodes_differ_after(5));
  EXPECT_FALSE(SyncSchedule(options("slowmo"), 1).synchronizes(6));
}

TEST(SyncSchedule, SlowMomentumThatWouldChangeNothingIsOff) {
  SyncOptions o = options("slowmo");
  o.slowmo_momentum = 0;
  EXPECT_EQ(actions(o, 4, 6), actions(options("localsgd"), 4, 6));
  o.slowmo_lr = 0.5;
  EXPECT_EQ(actions(o, 4, 6), "- - a - - m");
}

TEST(SyncSchedule, MeansThatArriveLater) {
  SyncOptions o = options("slowmo");
  o.average_overlap = true;
  o.average_delay = 2;
  const SyncSchedule late(o, 2);
  EXPECT_TRUE(late.averages(3));
  EXPECT_FALSE(late.synchronizes(3)) << "nodes do not wait";
  EXPECT_TRUE(late.synchronizes(5));
  EXPECT_TRUE(late.applies_mean(8)) << "with the outer update of step 6";
  EXPECT_FALSE(late.applies_mean(2));
  EXPECT_TRUE(late.nodes_differ_after(5)) << "they have made steps since it was sent";
  EXPECT_FALSE(late.nodes_differ_after(0));
  const SyncSchedule alone(o, 1);
  EXPECT_FALSE(alone.overlaps()) << "no other node";
  EXPECT_FALSE(alone.applies_mean(5));
  EXPECT_FALSE(alone.nodes_differ_after(5));
}

TEST(SyncSchedule, LocalTrainingBeginsAfterTheWarmUp) {
  SyncOptions o = options("slowmo");
  o.warmup_steps = 4;
  EXPECT_EQ(actions(o, 4, 10), "- - - - - - a - - m");
  const SyncSchedule warm(o, 4);
  EXPECT_TRUE(warm.in_warmup(4));
  EXPECT_FALSE(warm.in_warmup(5));
  EXPECT_TRUE(warm.synchronizes(1)) << "gradients are summed";
  EXPECT_FALSE(warm.synchronizes(5));
  EXPECT_TRUE(warm.synchronizes(7));
  EXPECT_FALSE(warm.nodes_differ_after(4));
  EXPECT_TRUE(warm.nodes_differ_after(5));
  EXPECT_FALSE(SyncSchedule(o, 1).synchronizes(1)) << "no other node";
  EXPECT_EQ(actions(o, 1, 10), "- - - - - - - - - m");
  o.average_overlap = true;
  const SyncSchedule late(o, 4);
  EXPECT_FALSE(late.nodes_differ_after(4));
  EXPECT_TRUE(late.nodes_differ_after(7)) << "they have made steps since it was sent";
  EXPECT_TRUE(late.applies_mean(8));
  EXPECT_EQ(SyncSchedule(options("sgp"), 4).pushes_before(3), 2U);
  o = options("sgp");
  o.warmup_steps = 4;
  EXPECT_EQ(SyncSchedule(o, 4).pushes_before(7), 2U);
}

TEST(SyncSchedule, NodesDifferBetweenSynchronizations) {
  const SyncSchedule localsgd(options("localsgd"), 2), diloco(options("diloco"), 2), sgp(options("sgp"), 2);
  EXPECT_FALSE(localsgd.nodes_differ_after(0));
  EXPECT_TRUE(localsgd.nodes_differ_after(1));
  EXPECT_FALSE(localsgd.nodes_differ_after(3));
  EXPECT_TRUE(diloco.nodes_differ_after(3));
  EXPECT_FALSE(diloco.nodes_differ_after(6));
  EXPECT_FALSE(sgp.nodes_differ_after(0));
  EXPECT_TRUE(sgp.nodes_differ_after(6));
  EXPECT_FALSE(SyncSchedule(options("every_step"), 2).nodes_differ_after(1));
  EXPECT_EQ(localsgd.period(), 3U);
  EXPECT_EQ(diloco.period(), 6U);
  EXPECT_EQ(sgp.period(), 0U);
  EXPECT_EQ(SyncSchedule(options("slowmo", "sgp"), 2).period(), 6U);
  EXPECT_EQ(SyncSchedule(options("every_step"), 2).period(), 1U);
}

/// If N is a power of two, the product of log2 N mixing matrices is the exact mean: each node then has an equal part of all.
TEST(SyncSchedule, TheExponentialGraphReachesAllNodes) {
  for (const int nodes : {2, 4, 8, 16}) {
    std::vector<std::vector<double>> has(static_cast<std::size_t>(nodes),
                                         std::vector<double>(static_cast<std::size_t>(nodes)));
    for (std::size_t n = 0; n < has.size(); ++n) has[n][n] = 1;
    std::size_t exchange = 0;
    for (int reach = 1; reach < nodes; reach *= 2, ++exchange) {
      const int hop = SyncSchedule::hop(exchange, nodes);
      EXPECT_EQ(hop, reach);
      const auto before = has;
      for (int n = 0; n < nodes; ++n) {
        const auto from = static_cast<std::size_t>((n - hop + nodes) % nodes), at = static_cast<std::size_t>(n);
        for (std::size_t k = 0; k < has.size(); ++k) has[at][k] = (before[at][k] + before[from][k]) / 2;
      }
    }
    for (const auto& node : has) {
      for (const double part : node) EXPECT_EQ(part, 1.0 / nodes);
    }
    EXPECT_EQ(SyncSchedule::hop(exchange, nodes), 1) << "the graph begins again";
  }
  EXPECT_EQ(SyncSchedule::hop(0, 1), 0);
  EXPECT_EQ(SyncSchedule::hop(1, 3), 2);
  EXPECT_EQ(SyncSchedule::hop(2, 5), 4);
}

TEST(SyncSchedule, TheGraphAdvancesPerExchangeNotPerStep) {
  const SyncSchedule slow(options("slowmo", "sgp"), 4);
  EXPECT_EQ(slow.pushes_before(1), 0U);
  EXPECT_EQ(slow.pushes_before(6), 5U);
  EXPECT_EQ(slow.pushes_before(7), 5U) << "the outer update replaced the exchange of step 6";
  EXPECT_EQ(SyncSchedule(options("sgp"), 4).pushes_before(7), 6U);
}

}  // namespace of_schedule_test
}  // namespace shoal::sync
