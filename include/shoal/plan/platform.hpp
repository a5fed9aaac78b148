// SPDX-License-Identifier: Apache-2.0
// Describes a cluster to SimGrid: a host per node, with a core per rank, and the network between them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/names.hpp"
#include "shoal/plan/network.hpp"

namespace shoal::plan {

enum class Platform : std::uint8_t { two_level, fat_tree, dragonfly };
inline constexpr std::array platform_names = {Named{Platform::two_level, "two-level"}, Named{Platform::fat_tree, "fat-tree"},
                                              Named{Platform::dragonfly, "dragonfly"}};
constexpr const auto& table_of(Platform) { return platform_names; }

/// The platform file (XML). All links have the measured rate of a node's link, in each direction, and between the nodes that
/// are farthest from each other the measured latency. Ranks of a node exchange data at the measured rate per rank.
/// two_level: one switch that never is the bottleneck. fat_tree: switches of 16 nodes or fewer, each with as many links up
/// as nodes (Leiserson 1985). dragonfly: routers with 4 nodes each; all routers of a group are linked to each other, and all
/// groups, which have as many routers as there are groups, or more (Kim et al. 2008). Both may have more nodes than the
/// cluster, so that all switches are equal. Hosts are named node0, node1, ...
std::string platform_file(Platform platform, const Cluster& cluster, const NetworkModel& network);

/// The host of each process of a replay, one a line.
std::string host_file(const Cluster& cluster, int processes_per_rank);

/// Settings of SimGrid with which such a file means what it says: without SMPI's factors for other networks, without traffic
/// of acknowledgements, and without latency between a rank and its lanes.
std::vector<std::string> simulator_settings();

}  // namespace shoal::plan
