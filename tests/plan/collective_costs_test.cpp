// SPDX-License-Identifier: Apache-2.0
// Costs of single collectives, compared with numbers that were computed by hand.
#include "shoal/plan/collective_costs.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"

namespace shoal::plan {
namespace of_collective_costs_test {

using Bytes = std::vector<std::vector<std::size_t>>;

Bytes even(int ranks, std::size_t bytes) {
  return {std::vector<std::size_t>(static_cast<std::size_t>(ranks), bytes / static_cast<std::size_t>(ranks))};
}

TEST(Tree, GoesWithinNodesAndAcrossThem) {
  const NetworkModel network = two_levels();
  constexpr std::size_t bytes = 12'000'000;
  // 3 nodes x 2 ranks. A rank sends its sixth to two other nodes, in one exchange. Then the two ranks of a node send each
  // other the half that the other lacks.
  const Cluster six = {3, 2};
  const Grouping all = Grouping::consecutive(6, 6);
  const Cost gather = CollectiveCosts(network, six).all_gather(all, even(6, bytes));
  EXPECT_NEAR(gather.node_s, 1e-6 + 6e6 * 1e-10, 1e-12);
  EXPECT_NEAR(gather.across_s, 10e-6 + 4e6 * 1e-8, 1e-12);
  EXPECT_FALSE(gather.node_first);
  EXPECT_EQ(gather.sent[3].intra, bytes / 2);
  EXPECT_EQ(gather.sent[3].inter, bytes / 3);
  const Cost reduce = CollectiveCosts(network, six).reduce_scatter(all, even(6, bytes));
  EXPECT_TRUE(reduce.node_first);
  EXPECT_NEAR(reduce.total_s() - gather.total_s(), 10e6 * 2e-11, 1e-12);
  // One rank per node has the link of its node to itself.
  const Cluster four_nodes = {4, 1};
  EXPECT_NEAR(CollectiveCosts(network, four_nodes).all_gather(Grouping::consecutive(4, 4), even(4, bytes)).total_s(),
              2 * 10e-6 + 9e6 * 0.5e-8, 1e-12);
}

/// One exchange within nodes and one across them, of the same bytes.
TEST(Tree, HasFewerExchangesOnQueuedGroups) {
  const NetworkModel network = two_levels();
  NetworkModel queued = network;
  queued.queued = true;
  const auto fewer = [&](Cluster cluster, int within, int across) {
    const int ranks = cluster.ranks();
    const Grouping all = Grouping::consecutive(ranks, ranks);
    const Cost by_mpi = CollectiveCosts(network, cluster).all_gather(all, even(ranks, 48'000));
    const Cost by_nccl = CollectiveCosts(queued, cluster).all_gather(all, even(ranks, 48'000));
    EXPECT_NEAR(by_mpi.node_s - by_nccl.node_s, within * 1e-6, 1e-12);
    EXPECT_NEAR(by_mpi.across_s - by_nccl.across_s, across * 10e-6, 1e-12);
    EXPECT_EQ(by_mpi.sent[0].total(), by_nccl.sent[0].total());
  };
  fewer({1, 2}, 0, 0);
  fewer({1, 8}, 2, 0);
  fewer({8, 1}, 0, 2);
  fewer({4, 4}, 1, 1);
  fewer({1, 6}, 0, 0);   // 2 x 3 ranks of a node: two exchanges in both
  fewer({1, 12}, 1, 0);  // 4 x 3: two instead of three
  const Cluster four = {4, 1};
  EXPECT_EQ(CollectiveCosts(queued, four).small(Grouping::consecutive(4, 4)).total_s(),
            CollectiveCosts(network, four).small(Grouping::consecutive(4, 4)).total_s());
}

TEST(Tree, OfConsecutiveRanksStaysInTheNodeAndOfTheSamePositionDoesNot) {
  const NetworkModel network = two_levels();
  const Cluster four = {2, 2};
  const Cost near = CollectiveCosts(network, four).all_gather(Grouping::consecutive(4, 2), even(2, 1000));
  const Cost far = CollectiveCosts(network, four).all_gather(Grouping::same_position(4, 2), even(2, 1000));
  for (const std::size_t rank : {0U, 1U, 2U, 3U}) {
    EXPECT_EQ(near.sent[rank].intra, 500U);
    EXPECT_EQ(near.sent[rank].inter, 0U);
    EXPECT_EQ(far.sent[rank].intra, 0U);
    EXPECT_EQ(far.sent[rank].inter, 500U);
  }
  EXPECT_EQ(near.across_s, 0);
  EXPECT_EQ(far.node_s, 0);
  EXPECT_NEAR(far.across_s, 10e-6 + 500 * 1e-8, 1e-12);
}

TEST(LinkRate, IsDividedAmongTheRanksOfANodeAndIncludesHeaders) {
  const NetworkModel network = with_link_rate(two_levels(), 1e9);
  const Cluster four = {2, 2};
  const Cost gather = CollectiveCosts(network, four).all_gather(Grouping::consecutive(4, 4), even(4, 8'000'000));
  EXPECT_NEAR(gather.across_s - 10e-6, 2 * 2e6 * 8 / (1e9 * useful_share), 1e-9);
}

/// 2 nodes x 2 ranks. A block of 1000 elements is sent as codes and four scales.
TEST(Quantized, CollectivesSendCodesAndScalesAndTakeTime) {
  const NetworkModel network = two_levels();
  const Cluster four = {2, 2};
  const CollectiveCosts collectives(network, four);
  const Grouping all = Grouping::consecutive(4, 4);
  const BlockSpans blocks(4, {1000});
  constexpr std::size_t int8 = 1000 + 16, int4 = 500 + 16;
  const Cost gather = collectives.quantized_all_gather(all, {blocks}, {8});
  EXPECT_EQ(gather.sent[1].inter, int8);
  EXPECT_EQ(gather.sent[1].intra, 2 * int8);
  EXPECT_NEAR(gather.before_s, 1000 * 3e-9, 1e-15);
  EXPECT_NEAR(gather.after_s, 4000 * 1e-9, 1e-15);

  const Cost reduce = collectives.quantized_reduce_scatter(all, {blocks}, 2, {{8}, {4}});
  EXPECT_EQ(reduce.sent[2].intra, 2 * int8) << "two blocks: those of the other local rank, on both nodes";
  EXPECT_EQ(reduce.sent[2].inter, int4) << "one block: the node's sum for the other node";
  EXPECT_NEAR(reduce.before_s, 2000 * 3e-9, 1e-15);
  EXPECT_NEAR(reduce.between_s, 2000 * 1e-9 + 1000 * 5e-9, 1e-15);
  EXPECT_NEAR(reduce.after_s, 1000 * 2e-9, 1e-15);
  EXPECT_TRUE(reduce.node_first);
}

TEST(Shift, GoesToOneRankEach) {
  const NetworkModel network = two_levels();
  const Cluster four = {2, 2};
  const std::vector<std::size_t> bytes = {10, 20, 30, 40};
  const Cost across = CollectiveCosts(network, four).shift(2, bytes);
  EXPECT_EQ(across.sent[1].inter, 20U);
  EXPECT_NEAR(across.across_s, 10e-6 + 70 * 1e-8 / 2, 1e-15) << "both ranks of a node send over its link";
  EXPECT_EQ(across.node_s, 0);
}

}  // namespace of_collective_costs_test
}  // namespace shoal::plan
