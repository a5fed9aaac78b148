// SPDX-License-Identifier: Apache-2.0
#include "app/setup/rank_layout.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/config/table.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

RankLayout divide(const config::Options& options, int ranks, int on_node) {
  const comm::Axes axes{.tensor = 1, .pipeline = options.pipeline.size};
  const int data = axes.data(ranks), together = options.comm.ranks_per_node > 0 ? options.comm.ranks_per_node : on_node;
  RankLayout division{data, data, axes.model() == 1 ? together : std::min(together, data), axes};
  if (!sync::trains_locally(options.sync)) return division;
  division.sync_group_size = options.sync.nprocs_per_node > 0 ? options.sync.nprocs_per_node : division.on_node;
  return division;
}

int ranks_on_host(const comm::World& world, int rank) {
  const std::vector<std::string>& hosts = world.topology().hosts;
  return static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(rank)]));
}

bool depends_on_nodes(const config::Options& options) {
  const bool of_node = options.zero.hpz_size == zero::ZeroOptions::whole_node || options.zero.qgz != 0;
  return of_node || (sync::trains_locally(options.sync) && options.sync.nprocs_per_node == 0);
}

namespace {

/// Fails if the data-parallel ranks of a pipeline's stages would lie on the nodes in different ways. All nodes have the same
/// number of ranks.
void check_nodes_of_stages(const comm::World& world, const RankLayout& division) {
  const int on_node = world.topology().ranks_per_node(), of_stage = division.ranks;
  require_input(division.axes.pipeline == 1 || on_node % of_stage == 0 || of_stage % on_node == 0,
                "zero.hpz_size = node and zero.qgz need stages of a pipeline that lie on the nodes in the same way, but a "
                "node has ",
                on_node, " ranks and a stage has ", of_stage,
                "; allowed: zero.hpz_size = off and zero.qgz = off, or numbers one of which divides the other");
}

}  // namespace

void check_nodes(const config::Options& options, comm::World& world, const RankLayout& division) {
  const std::string unequal = comm::unequal_nodes(world.topology().node_of);
  require_input(options.zero.hpz_size != zero::ZeroOptions::whole_node || unequal.empty(), "zero.hpz_size = node: ", unequal,
                "; allowed: off, or a number of ranks");
  require_input(options.zero.qgz == 0 || unequal.empty(), "zero.qgz = ", options.zero.qgz, ": ", unequal,
                "; allowed: off, or the same number of ranks on each node");
  if (options.zero.hpz_size == zero::ZeroOptions::whole_node || options.zero.qgz != 0)
    check_nodes_of_stages(world, division);
  if (!sync::trains_locally(options.sync)) return;
  require_input(options.sync.nprocs_per_node > 0 || unequal.empty(), "sync.kind = ", name_of(options.sync.kind), ": ",
                unequal, "; allowed: the same number on each node, or sync.nprocs_per_node = a divisor of the ",
                world.size(), " ranks");
  if (!sync::pushes(options.sync) || !zero::stage_of(options.zero).shards_parameters || world.size() == 1) return;
  // The same for all ranks: nodes may have different numbers of them.
  const comm::Topology& topology = world.topology();
  int least = world.size();
  for (int node = 0; node < topology.nodes(); ++node) {
    const auto [first, end] = topology.ranks_of(node);
    least = std::min(least, end - first);
  }
  const std::string problem = config::sgp_stage3_problem(division.sync_group_size, least);
  require_input(problem.empty(), problem);
}

bool knows_losses(const comm::World& world) {
  const comm::Axes::Position at = world.position();
  return at.pipeline + 1 == world.axes().pipeline && at.tensor == 0;
}

sync::NodeGroups node_groups(int rank, int ranks, int sync_group_size) {
  return {{rank % sync_group_size, sync_group_size, nullptr}, {rank / sync_group_size, ranks / sync_group_size, nullptr}};
}

sync::NodeGroups make_node_groups(comm::World& world, const RankLayout& division, const config::Options& options,
                                  std::size_t hpz_size) {
  const int sync_group_size = division.sync_group_size;
  require(world.axes() == division.axes, "the groups were made for other axes");
  sync::NodeGroups groups = node_groups(world.position().data, division.ranks, sync_group_size);
  if (sync_group_size == division.ranks) {
    groups.node.group = &world.data();
  } else if (sync_group_size == world.topology().ranks_per_node()) {
    groups.node.group = &world.node();
    groups.across.group = &world.across();
  } else {
    groups.node.group = &world.consecutive(sync_group_size);
    groups.across.group = &world.same_position(sync_group_size);
  }
  if (options.sync.average_dtype == sync::AverageType::int8 && groups.across.ranks > 1) {
    groups.self = sync_group_size == 1 ? groups.node.group : &world.consecutive(1);
  }
  groups.node.node = &world.data_node();
  groups.node.across = &world.data_across();
  if (division.axes.model() > 1) groups.node.model = &world.model();
  if (zero::stage_of(options.zero).shards_parameters && zero::has_secondary(hpz_size, sync_group_size)) {
    groups.node.neighbours = &world.consecutive(static_cast<int>(hpz_size));
  }
  return groups;
}

}  // namespace shoal::app
