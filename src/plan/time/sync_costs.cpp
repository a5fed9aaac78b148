// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/sync_costs.hpp"

#include <algorithm>
#include <numeric>

#include "plan/costs/at.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/sync/average.hpp"

namespace shoal::plan {

namespace {

/// By unit: the elements of the sub-shards into which the shard of local rank `local` is cut, one sub-shard per node.
std::vector<BlockSpans> sub_shards_across(const zero::EngineOptions& engine, int local, int sync_group_size, int nodes) {
  Memory counting;
  sync::NodeGroups groups;
  groups.node.rank = local;
  groups.node.ranks = sync_group_size;
  groups.across.ranks = nodes;
  const auto units = model::layout(engine.model);
  zero::States states(units, zero::shard_layouts(units, engine.zero, groups.node), engine.dtype, {}, groups.node, counting);
  const sync::SubShards sub_shards(states, units.size(), groups);
  std::vector<BlockSpans> result;
  for (std::size_t u = 0; u < units.size(); ++u) {
    BlockSpans& blocks = result.emplace_back();
    const auto counted = [](std::size_t, Range range) {  // a span without memory, with one byte per element
      return Span<std::byte>(static_cast<std::byte*>(nullptr), range.size());
    };
    for (const auto& block : sub_shards.blocks_across({u, u + 1}, counted)) {
      std::vector<std::size_t>& spans = blocks.emplace_back();
      for (const Span<std::byte> span : block) spans.push_back(span.size());
    }
  }
  return result;
}

/// Bytes of the sub-shards of all units, by node.
std::vector<std::size_t> bytes_across(const std::vector<BlockSpans>& units, int nodes, DType type) {
  std::vector<std::size_t> bytes(at(nodes), 0);
  for (const BlockSpans& blocks : units) {
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      bytes[k] += std::accumulate(blocks[k].begin(), blocks[k].end(), std::size_t{0}) * size_of(type);
    }
  }
  return bytes;
}

}  // namespace

SyncCosts::SyncCosts(const sync::SyncOptions& options, const zero::EngineOptions& engine, int sync_group_size,
                     const Cluster& cluster, const CollectiveCosts& collectives, StepSimulation& simulation,
                     RankClock& clock)
    : schedule_(options, cluster.ranks() / sync_group_size),
      push_overlaps_(options.sgp_overlap),
      sync_group_size_(sync_group_size),
      ranks_(cluster.ranks()),
      collectives_(&collectives),
      simulation_(&simulation),
      time_(&clock) {
  if (!sync::trains_locally(options)) return;
  prepare_averages(options, engine, ranks_ / sync_group_size);
  exchange_reports_ = collectives.small(Grouping::consecutive(ranks_, ranks_));
  gathers_in_node_ = sync_group_size > 1 && !zero::stage_of(engine.zero).shards_optimizer;
  if (gathers_in_node_) {
    gather_in_node_ = collectives.all_gather(Grouping::consecutive(ranks_, sync_group_size),
                                             {{shard_bytes_.begin(), shard_bytes_.begin() + sync_group_size}});
  }
}

/// As in sync/average.hpp: quantized averages go unit by unit, others all at once.
void SyncCosts::prepare_averages(const sync::SyncOptions& options, const zero::EngineOptions& engine, int nodes) {
  const Grouping across = Grouping::same_position(ranks_, sync_group_size_);
  const sync::Sending sending = sync::sending_of(options, engine.zero.quant_block);
  std::vector<std::vector<BlockSpans>> by_unit;  // [unit][group]
  std::vector<std::vector<std::size_t>> bytes;
  for (int local = 0; local < sync_group_size_; ++local) {
    const std::vector<BlockSpans> units = sub_shards_across(engine, local, sync_group_size_, nodes);
    by_unit.resize(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) by_unit[u].push_back(units[u]);
    bytes.push_back(bytes_across(units, nodes, sending.type));
    const auto of_nodes = bytes_across(units, nodes, DType::f32);
    shard_bytes_.push_back(std::accumulate(of_nodes.begin(), of_nodes.end(), std::size_t{0}));
  }
  for (int rank = sync_group_size_; rank < ranks_; ++rank) shard_bytes_.push_back(shard_bytes_[at(rank % sync_group_size_)]);
  if (!sending.quantized) {
    reduce_.push_back(collectives_->reduce_scatter(across, bytes));
    gather_.push_back(collectives_->all_gather(across, bytes));
    return;
  }
  const kernels::QuantFormat& format = *sending.quantized;
  for (const std::vector<BlockSpans>& blocks : by_unit) {
    reduce_.push_back(collectives_->quantized_reduce_scatter(across, blocks, 1, {format, format}));
    gather_.push_back(collectives_->quantized_all_gather(across, blocks, format));
  }
}

void SyncCosts::run(const SyncEvent& event) {
  simulation_->step();
  execute(event.calls, event.hop);
  for (std::size_t step = 1; step < event.steps; ++step) simulation_->step();
  execute(event.last_calls, event.hop);
  if (event.reports) time_->run(OperationKind::all_gather, exchange_reports_);
}

void SyncCosts::finish() {
  simulation_->wait_for_parameters();
  execute(sync::SyncCall::finish_push, 0);
  finish_average();
}

void SyncCosts::execute(const std::vector<sync::SyncCall>& calls, int hop) {
  for (const sync::SyncCall call : calls) execute(call, hop);
}

/// Computation of the synchronization itself is not counted, but for that of quantized messages.
void SyncCosts::execute(sync::SyncCall call, int hop) {
  switch (call) {
    case sync::SyncCall::wait_for_parameters: return simulation_->wait_for_parameters();
    case sync::SyncCall::finish_push:
      if (pushing_) time_->wait(*pushing_);
      pushing_.reset();
      return;
    case sync::SyncCall::start_mean:
    case sync::SyncCall::start_outer_mean:
      if (schedule_.overlaps()) start_average();
      return;
    case sync::SyncCall::apply_mean: return schedule_.overlaps() ? finish_average() : average();
    case sync::SyncCall::push: return push(hop);
    case sync::SyncCall::gather_in_node:
      if (gathers_in_node_) time_->run(OperationKind::all_gather, gather_in_node_);
      return;
    case sync::SyncCall::rebuild_parameters: return simulation_->start_all_gather();
    case sync::SyncCall::start_from_masters:
    case sync::SyncCall::outer_update: return;
  }
}

/// A mean that is applied at once.
void SyncCosts::average() {
  for (std::size_t i = 0; i < reduce_.size(); ++i) {
    time_->run(OperationKind::reduce_scatter, reduce_[i]);
    time_->run(OperationKind::all_gather, gather_[i]);
  }
}

/// A mean that is in flight during the next steps. Each operation waits for the one before it.
void SyncCosts::start_average() {
  for (std::size_t i = 0; i < reduce_.size(); ++i) {
    averaging_.push_back(i == 0 ? time_->start(OperationKind::reduce_scatter, reduce_[i])
                                : time_->start_after(averaging_.back(), OperationKind::reduce_scatter, reduce_[i]));
    averaging_.push_back(time_->start_after(averaging_.back(), OperationKind::all_gather, gather_[i]));
  }
}

void SyncCosts::finish_average() {
  for (const RankClock::Pending& pending : averaging_) time_->wait(pending);
  averaging_.clear();
}

void SyncCosts::push(int hop) {
  const RankClock::Pending pushing =
      time_->start(OperationKind::send, collectives_->shift(hop * sync_group_size_, shard_bytes_));
  if (push_overlaps_) {
    pushing_ = pushing;
  } else {
    time_->wait(pushing);
  }
}

}  // namespace shoal::plan
