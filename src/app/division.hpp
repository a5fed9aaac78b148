// SPDX-License-Identifier: Apache-2.0
// Which ranks belong together.
#pragma once

#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/sync/node_groups.hpp"

namespace shoal::app {

struct Division {
  int ranks = 1;            ///< data-parallel ranks
  int sync_group_size = 1;  ///< of these, neighbours that share gradients at every step: all, or with sync.kind a node's
  int on_node = 1;          ///< on a node
};

/// on_node: ranks of a node of the machine; comm.ranks_per_node goes before it.
Division divide(const config::Options& options, int ranks, int on_node);

/// Fails where nodes have unequal numbers of ranks and an option needs them equal: they are what stays in step, or what
/// keeps a second partition.
void check_nodes(const config::Options& options, comm::World& world, const Division& division);

/// Where a rank stands, without the groups.
sync::NodeGroups node_groups(int rank, int ranks, int sync_group_size);
/// Where this one does. hpz_size: of zero::ZeroOptions, resolved.
sync::NodeGroups make_node_groups(comm::World& world, const Division& division, const config::Options& options,
                                  std::size_t hpz_size);

}  // namespace shoal::app
