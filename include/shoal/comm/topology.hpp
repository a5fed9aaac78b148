// SPDX-License-Identifier: Apache-2.0
// Which rank runs on which node, and the groups that follow from it. Pure: needs no MPI.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shoal::comm {

/// Ranks are numbered node by node.
struct Topology {
  std::vector<int> node_of;        ///< the node of each rank, ascending from 0
  std::vector<std::string> hosts;  ///< host name of each rank

  int ranks() const { return static_cast<int>(node_of.size()); }
  int nodes() const { return node_of.empty() ? 0 : node_of.back() + 1; }
  /// The rank's number among those of its node.
  int local_of(int rank) const;
  /// [first rank, one past the last) of a node.
  std::pair<int, int> ranks_of(int node) const;
  /// Ranks per node where all nodes have as many; 0 where they have not.
  int ranks_per_node() const;
};

/// Why not all nodes have as many ranks: "node 1 has 3 ranks, node 0 has 2"; empty if they have. node_of: Topology's.
std::string unequal_nodes(const std::vector<int>& node_of);

/// Several disjoint groups of one name, of which each rank is in one.
struct GroupKind {
  std::string name;
  std::vector<int> part_of;  ///< which of them each rank is in; the members of one are numbered in the ranks' order
};

/// The groups that a run makes, in the order of their indices in the trace:
///   all     the data-parallel ranks
///   node    the ranks of a node
///   across  the ranks of one number on their nodes: those of number 0 are the nodes' leaders. Where nodes have different
///           numbers of ranks, a group holds only the nodes that have a rank of its number.
std::vector<GroupKind> group_kinds(const Topology& topology);

/// "2 nodes x 2 ranks (node1: 0-1, node2: 2-3)"; of many nodes the first two and the last; "1 node (node1)".
std::string describe(const Topology& topology);

/// How the reproducible tree (comm/tree_reduce.hpp) lies on the nodes: "within nodes of 2 ranks first, then across 3 nodes".
std::string describe_tree(const Topology& topology);

}  // namespace shoal::comm
