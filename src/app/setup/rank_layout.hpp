// SPDX-License-Identifier: Apache-2.0
// How ranks are divided into nodes and groups.
#pragma once

#include "shoal/comm/world.hpp"
#include "shoal/config/options.hpp"
#include "shoal/sync/node_groups.hpp"

namespace shoal::app {

struct RankLayout {
  int ranks = 1;            ///< data-parallel ranks: of those started, the ones along the axis `data`
  int sync_group_size = 1;  ///< ranks that reduce gradients at every step: all of these, or those of a node if nodes train
                            ///< locally
  int on_node = 1;          ///< data-parallel ranks per node
  comm::Axes axes = {};     ///< of the ranks started
};

/// ranks: those that were started. on_node: ranks on a node of the machine; comm.ranks_per_node takes precedence.
RankLayout divide(const config::Options& options, int ranks, int on_node);

/// Number of ranks on the host of this rank. They share its memory, also if comm.ranks_per_node makes several nodes of it.
int ranks_on_host(const comm::World& world, int rank);

/// True if a rank's memory and the results depend on which ranks share a node.
bool depends_on_nodes(const config::Options& options);
/// What a plan says if it does, and the nodes are not known.
inline constexpr const char* unknown_nodes =
    "planned as one node, on which memory depends here; comm.ranks_per_node says how many ranks a node has";

/// Fails if nodes have unequal numbers of ranks and an option needs equal ones: because the ranks of a node reduce gradients
/// together, or because they hold a second copy of the parameters.
void check_nodes(const config::Options& options, comm::World& world, const RankLayout& division);

/// True on the ranks that report losses: those of a pipeline's last stage, one for each micro-batch.
bool knows_losses(const comm::World& world);

/// The numbers of a data-parallel rank in its groups, without communicators.
sync::NodeGroups node_groups(int rank, int ranks, int sync_group_size);
/// This rank's numbers in its groups, with communicators. world must have groups along division.axes. hpz_size: of
/// zero::ZeroOptions, resolved.
sync::NodeGroups make_node_groups(comm::World& world, const RankLayout& division, const config::Options& options,
                                  std::size_t hpz_size);

}  // namespace shoal::app
