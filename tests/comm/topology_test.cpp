// SPDX-License-Identifier: Apache-2.0
// Which rank is on which node, and the resulting groups.
#include "shoal/comm/topology.hpp"

#include <gtest/gtest.h>

namespace shoal::comm {
namespace of_topology_test {

/// Nodes node1, node2, ... with these numbers of ranks.
Topology nodes_of(const std::vector<int>& ranks) {
  Topology topology;
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    for (int i = 0; i < ranks[node]; ++i) {
      topology.node_of.push_back(static_cast<int>(node));
      topology.hosts.push_back("node" + std::to_string(node + 1));
    }
  }
  return topology;
}

TEST(TopologyOf, UnequalNodesAreNamed) {
  EXPECT_EQ(unequal_nodes({0, 0, 1, 1}), "");
  EXPECT_EQ(unequal_nodes({0, 0, 1, 1, 1}), "node 1 has 3 ranks, node 0 has 2");
}

TEST(Topology, QueuedGroupsUseAPowerOfTwoOfRanksOnEachNode) {
  EXPECT_EQ(queued_ranks_per_node({0}), 1);
  EXPECT_EQ(queued_ranks_per_node({0, 0, 0, 0, 2, 2, 2, 2}), 4);
  EXPECT_EQ(queued_ranks_per_node({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}), 2);
  EXPECT_EQ(queued_ranks_per_node({0, 0, 1}), 1);
  EXPECT_EQ(queued_ranks_per_node({0, 0, 0}), 1);
}

TEST(TopologyOf, EqualNodes) {
  const Topology topology = nodes_of({2, 2, 2});
  EXPECT_EQ(topology.ranks(), 6);
  EXPECT_EQ(topology.nodes(), 3);
  EXPECT_EQ(topology.ranks_per_node(), 2);
  EXPECT_EQ(topology.ranks_of(1), std::pair(2, 4));
  EXPECT_EQ(topology.local_of(3), 1);
  EXPECT_EQ(describe(topology), "3 nodes x 2 ranks (node1: 0-1, node2: 2-3, node3: 4-5)");
  EXPECT_EQ(describe_tree(topology), "within nodes of 2 ranks first, then across 3 nodes");
}

TEST(TopologyOf, UnequalNodes) {
  const Topology topology = nodes_of({3, 1});
  EXPECT_EQ(topology.ranks_per_node(), 0);
  EXPECT_EQ(topology.ranks_of(0), std::pair(0, 3));
  EXPECT_EQ(topology.local_of(2), 2);
  EXPECT_EQ(topology.local_of(3), 0);
  EXPECT_EQ(describe(topology), "2 nodes of 1 to 3 ranks (node1: 0-2, node2: 3)");
  EXPECT_EQ(describe_tree(topology).find("over the ranks in order"), 0U);
  EXPECT_EQ(nodes_of({1, 2, 3}).ranks_per_node(), 0) << "equal only in the mean";
}

TEST(TopologyOf, OneNodeAndNodesOfOneRank) {
  EXPECT_EQ(describe(nodes_of({4})), "1 node (node1)");
  EXPECT_EQ(describe_tree(nodes_of({3})), "within one node");
  EXPECT_EQ(describe(nodes_of({1, 1})), "2 nodes x 1 rank (node1: 0, node2: 1)");
  EXPECT_EQ(describe_tree(nodes_of({1, 1, 1})), "across 3 nodes");
  EXPECT_EQ(describe(nodes_of(std::vector<int>(64, 4))),
            "64 nodes x 4 ranks (node1: 0-3, node2: 4-7, ..., node64: 252-255)");
}

TEST(GroupKinds, AreAllNodeAndAcross) {
  const std::vector<GroupKind> kinds = group_kinds(nodes_of({2, 3}));
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[0].name, "all");
  EXPECT_EQ(kinds[0].part_of, std::vector<int>(5, 0));
  EXPECT_EQ(kinds[1].name, "node");
  EXPECT_EQ(kinds[1].part_of, (std::vector<int>{0, 0, 1, 1, 1}));
  EXPECT_EQ(kinds[2].name, "across");
  EXPECT_EQ(kinds[2].part_of, (std::vector<int>{0, 1, 0, 1, 2})) << "the third rank has no counterpart: a group of one";
}

}  // namespace of_topology_test
}  // namespace shoal::comm
