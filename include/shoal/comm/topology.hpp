// SPDX-License-Identifier: Apache-2.0
// Which rank runs on which node, and the groups that follow from that. Does not use MPI.
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
  /// Local rank: index of the rank among those of its node.
  int local_of(int rank) const;
  /// [first rank, one past the last) of a node.
  std::pair<int, int> ranks_of(int node) const;
  /// Ranks per node if all nodes have the same number; otherwise 0.
  int ranks_per_node() const;
};

/// Describes a difference if not all nodes have the same number of ranks: "node 1 has 3 ranks, node 0 has 2"; otherwise
/// empty. node_of: as in Topology.
std::string unequal_nodes(const std::vector<int>& node_of);

/// The largest power of two that divides the number of ranks on a node, if all nodes have the same number; otherwise 1.
/// node_of: the node of each rank of a group, ascending.
int queued_ranks_per_node(const std::vector<int>& node_of);

/// Disjoint groups with one name; each rank is in exactly one of them.
struct GroupKind {
  std::string name;
  std::vector<int>
      part_of;  ///< index of the group that each rank is in; the members of a group are in the order of the ranks
};

/// The groups that every run makes, in the order of their indices in the trace:
///   all     all ranks
///   node    the ranks of one node
///   across  the ranks with the same local rank, one per node; for local rank 0 these are the node leaders. If nodes have
///           different numbers of ranks, the group of local rank k has only the nodes with more than k ranks.
std::vector<GroupKind> group_kinds(const Topology& topology);

/// Text for people: "2 nodes x 2 ranks (node1: 0-1, node2: 2-3)", "1 node (node1)". If there are many nodes, it lists only
/// the first two and the last.
std::string describe(const Topology& topology);

/// Describes how the reproducible tree (comm/tree_reduce.hpp) uses the nodes: "within nodes of 2 ranks first, then across 3
/// nodes".
std::string describe_tree(const Topology& topology);

}  // namespace shoal::comm
