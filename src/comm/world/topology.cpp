// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/topology.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "shoal/base/counted.hpp"

namespace shoal::comm {

namespace {

/// "node1: 0-3"
std::string node_text(const Topology& topology, int node) {
  const auto [first, end] = topology.ranks_of(node);
  const std::string ranks = end - first == 1 ? text(first) : text(first, '-', end - 1);
  return text(topology.hosts[static_cast<std::size_t>(first)], ": ", ranks);
}

/// "3 nodes x 2 ranks", "3 nodes of 1 to 2 ranks".
std::string sizes_text(const Topology& topology) {
  const int nodes = topology.nodes();
  if (const int each = topology.ranks_per_node(); each > 0) {
    return counted(nodes, "node") + " x " + counted(each, "rank");
  }
  int least = topology.ranks(), most = 0;
  for (int node = 0; node < nodes; ++node) {
    const auto [first, end] = topology.ranks_of(node);
    least = std::min(least, end - first);
    most = std::max(most, end - first);
  }
  return text(counted(nodes, "node"), " of ", least, " to ", counted(most, "rank"));
}

}  // namespace

std::pair<int, int> Topology::ranks_of(int node) const {
  const auto [first, end] = std::equal_range(node_of.begin(), node_of.end(), node);
  return {static_cast<int>(first - node_of.begin()), static_cast<int>(end - node_of.begin())};
}

int Topology::local_of(int rank) const { return rank - ranks_of(node_of[static_cast<std::size_t>(rank)]).first; }

int Topology::ranks_per_node() const {
  const int count = nodes();
  if (count < 1 || ranks() % count != 0) return 0;
  const int each = ranks() / count;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (node_of[static_cast<std::size_t>(rank)] != rank / each) return 0;
  }
  return each;
}

int queued_ranks_per_node(const std::vector<int>& node_of) {
  std::map<int, int> ranks_on;
  for (const int node : node_of) ++ranks_on[node];
  const int first = node_of.empty() ? 1 : ranks_on.begin()->second;
  const bool equal = std::all_of(ranks_on.begin(), ranks_on.end(), [first](const auto& on) { return on.second == first; });
  return equal ? first & -first : 1;
}

std::string unequal_nodes(const std::vector<int>& node_of) {
  const Topology topology{node_of, {}};
  const int on_first = topology.ranks_of(0).second;
  for (int node = 1; node < topology.nodes(); ++node) {
    const auto [first, end] = topology.ranks_of(node);
    if (end - first != on_first) return text("node ", node, " has ", end - first, " ranks, node 0 has ", on_first);
  }
  return {};
}

std::vector<GroupKind> group_kinds(const Topology& topology) {
  std::vector<int> local;
  local.reserve(topology.node_of.size());
  for (int rank = 0; rank < topology.ranks(); ++rank) local.push_back(topology.local_of(rank));
  return {{"all", std::vector<int>(topology.node_of.size(), 0)}, {"node", topology.node_of}, {"across", local}};
}

std::string describe(const Topology& topology) {
  constexpr int listed = 4;
  const int nodes = topology.nodes();
  if (nodes == 1) return text("1 node (", topology.hosts.front(), ")");
  std::string list;
  for (int node = 0; node < nodes; ++node) {
    if (nodes > listed && node >= 2 && node < nodes - 1) {
      if (node == 2) list += ", ...";
      continue;
    }
    list += (node == 0 ? "" : ", ") + node_text(topology, node);
  }
  return text(sizes_text(topology), " (", list, ")");
}

std::string describe_tree(const Topology& topology) {
  const int each = topology.ranks_per_node(), nodes = topology.nodes();
  if (nodes == 1) return "within one node";
  if (each == 1) return text("across ", nodes, " nodes");
  if (each > 0 && std::has_single_bit(static_cast<unsigned>(each))) {
    return text("within nodes of ", each, " ranks first, then across ", nodes, " nodes");
  }
  return "over the ranks in order, across nodes at any level (within nodes first only if all have the same power of two of "
         "ranks)";
}

}  // namespace shoal::comm
