// SPDX-License-Identifier: Apache-2.0
#include "app/setup/connections.hpp"

#include <algorithm>
#include <optional>

#include "app/setup/rank_layout.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/comm/connect.hpp"
#include "shoal/pipeline/border.hpp"
#include "shoal/sync/schedule.hpp"
#include "shoal/zero/stages.hpp"

namespace shoal::app {

namespace {

using comm::Peers;

void add(std::vector<int>& ranks, int rank) {
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

/// Of the collectives of a reducer.
Peers reducer_peers(const comm::Communicator& group, comm::Collectives how) {
  if (how == comm::Collectives::reproducible) return tree_peers(group);
  Peers peers = all_peers(group);  // parts that are not equal are exchanged
  peers.collectives = true;
  return peers;
}

/// Whether gradients are summed over all ranks of a group that shards states. Quantized ones are summed over its ranks on a
/// node and over those across nodes.
bool sums_over_all(const zero::EngineOptions& engine) { return engine.capacity.training && !engine.gradients.quantized; }

/// Of the messages between a pipeline's stages.
Peers stage_peers(const StagePlan& stages) {
  Peers peers;
  const int own = stages.shape.stage;
  const auto read = [&](const std::optional<pipeline::Border>& border) {
    if (border) add(peers.from, sender(stages.shape, *border));
  };
  const auto made = [&](const std::optional<pipeline::Border>& border) {
    if (border) add(peers.to, receiver(stages.shape, *border));
  };
  for (const pipeline::Action& action : stages.lists.at(static_cast<std::size_t>(own))) {
    read(border_read(stages.shape, action));
    read(skip_read(stages.shape, action));
    made(border_made(stages.shape, action));
    made(skip_made(stages.shape, action));
  }
  return peers;
}

/// Of a unit on the first stage that has a copy on the last one (zero/tied_copies.hpp).
Peers copy_peers(const comm::Communicator& model) {
  const int last = model.size() - 1;
  if (model.rank() != 0 && model.rank() != last) return {};
  const int other = last - model.rank();
  return {{other}, {other}};
}

/// Of the nodes' synchronizations.
Peers sync_peers(const sync::SyncOptions& options, const zero::RankGroups& across) {
  const bool quantized = options.average_dtype == sync::AverageType::int8;
  Peers peers = quantized ? all_peers(*across.group) : tree_peers(*across.group);
  if (!pushes(options)) return peers;
  for (int hop = 1; hop < across.ranks; hop *= 2) {  // SyncSchedule::hop()
    add(peers.to, (across.rank + hop) % across.ranks);
    add(peers.from, (across.rank - hop + across.ranks) % across.ranks);
  }
  return peers;
}

}  // namespace

void connect_groups(comm::World& world, const ResolvedRun& resolved) {
  if (!world.all().queued()) return;
  const char* const before = heartbeat::current_phase();
  heartbeat::phase("connect");
  const zero::EngineOptions& engine = resolved.engine;
  const comm::Collectives how = engine.gradients.collectives;
  const sync::NodeGroups groups = make_node_groups(world, resolved.division, resolved.options, engine.zero.hpz_size);
  if (engine.capacity.training || zero::stage_of(engine.zero).shards_parameters) {
    const Peers sums = reducer_peers(*groups.node.group, how);
    Peers gathers = sums;
    gathers.collectives = gathers.collectives || resolved.options.adascale.on;  // gathers the weights of samples
    connect(*groups.node.group, {gathers, sums_over_all(engine) ? std::optional(sums) : std::nullopt});
  }
  if (engine.gradients.quantized) {
    connect(*groups.node.node, {{}, all_peers(*groups.node.node)});
    connect(*groups.node.across, {{}, all_peers(*groups.node.across)});
  }
  if (groups.node.neighbours != nullptr) connect(*groups.node.neighbours, {reducer_peers(*groups.node.neighbours, how), {}});
  if (groups.across.ranks > 1) {
    // Masters that every rank of a node keeps whole are gathered by the tree.
    connect(*groups.node.group, {tree_peers(*groups.node.group), {}});
    connect(*groups.across.group, {tree_peers(*groups.across.group), sync_peers(resolved.options.sync, groups.across)});
  }
  if (resolved.stages.shape.stages > 1) {
    connect(world.pipeline(), {{}, stage_peers(resolved.stages)});
    connect(*groups.node.model, {{}, copy_peers(*groups.node.model)});
  }
  heartbeat::phase(before);
}

}  // namespace shoal::app
