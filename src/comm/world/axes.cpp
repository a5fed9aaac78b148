// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/axes.hpp"

#include <functional>
#include <map>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::comm {

Axes::Position Axes::position(int rank, int ranks) const {
  return {rank % tensor, rank / tensor % data(ranks), rank / (tensor * data(ranks))};
}

int Axes::rank(const Position& position, int ranks) const {
  return (position.pipeline * data(ranks) + position.data) * tensor + position.tensor;
}

std::vector<GroupKind> axis_kinds(const Topology& topology, const Axes& axes) {
  const int ranks = topology.ranks();
  require(axes.tensor > 0 && axes.pipeline > 0 && ranks % axes.model() == 0, axes.tensor, " tensor x ", axes.pipeline,
          " pipeline ranks do not divide ", ranks);
  const auto kind = [&](const char* name, const std::function<int(int, const Axes::Position&)>& part_of) {
    GroupKind made{name, {}};
    for (int rank = 0; rank < ranks; ++rank) made.part_of.push_back(part_of(rank, axes.position(rank, ranks)));
    return made;
  };
  const auto copy = [&](const Axes::Position& at) { return at.pipeline * axes.tensor + at.tensor; };  // the group `data`
  const auto node = [&](int rank) { return topology.node_of[static_cast<std::size_t>(rank)]; };
  std::vector<int> index_on_node;
  index_on_node.reserve(static_cast<std::size_t>(ranks));
  std::map<std::pair<int, int>, int> seen;  // by group `data` and node
  for (int rank = 0; rank < ranks; ++rank) index_on_node.push_back(seen[{copy(axes.position(rank, ranks)), node(rank)}]++);
  return {kind("data", [&](int, const auto& at) { return copy(at); }),
          kind("tensor", [&](int rank, const auto&) { return rank / axes.tensor; }),
          kind("pipeline", [&](int, const auto& at) { return at.data * axes.tensor + at.tensor; }),
          kind("model", [](int, const auto& at) { return at.data; }),
          kind("data/node", [&](int rank, const auto& at) { return copy(at) * topology.nodes() + node(rank); }),
          kind("data/across",
               [&](int rank, const auto& at) { return copy(at) * ranks + index_on_node[static_cast<std::size_t>(rank)]; })};
}

Topology topology_of(const Topology& topology, const std::vector<int>& members) {
  Topology of;
  int last = -1, node = -1;
  for (const int rank : members) {
    const auto at = static_cast<std::size_t>(rank);
    if (topology.node_of[at] != last) ++node;
    last = topology.node_of[at];
    of.node_of.push_back(node);
    of.hosts.push_back(topology.hosts[at]);
  }
  return of;
}

}  // namespace shoal::comm
