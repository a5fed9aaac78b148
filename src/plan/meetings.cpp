// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/meetings.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/sync/shares.hpp"

namespace shoal::plan {

namespace {

constexpr DType master_type = DType::f32;

DType type_of_means(const sync::SyncOptions& options) {
  const bool known = options.average_dtype == "fp32" || options.average_dtype == "bf16";
  require_input(known, "sync.average_dtype = ", options.average_dtype, ": no prediction of means that are sent so");
  require_input(!options.average_overlap, "sync.average_overlap: no prediction of means that are sent during the next steps");
  return options.average_dtype == "bf16" ? DType::bf16 : DType::f32;
}

std::size_t bytes_of(const std::vector<Span<std::byte>>& block) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : block) bytes += span.size();
  return bytes;
}

/// Bytes that each node sums of what rank `local` of a node keeps, in this type.
std::vector<std::size_t> blocks_across(const zero::EngineOptions& engine, int local, int in_step, int nodes, DType type) {
  Memory counting;
  sync::Placement placement;
  placement.node.rank = local;
  placement.node.ranks = in_step;
  placement.across.ranks = nodes;
  const auto units = model::layout(engine.model);
  zero::States states(units, zero::holdings(units, engine.zero, placement.node), engine.dtype, {}, placement.node, counting);
  const sync::Shares shares(states, units.size(), placement);
  std::vector<std::size_t> bytes;
  const auto span_of = [&](std::size_t, Range range) {
    return Span<std::byte>(static_cast<std::byte*>(nullptr), range.size() * size_of(type));
  };
  for (const auto& block : shares.blocks_across({0, shares.units()}, span_of)) bytes.push_back(bytes_of(block));
  return bytes;
}

}  // namespace

Period period_of(const sync::SyncOptions& options, int nodes) {
  const sync::Schedule schedule(options, nodes);
  Period period;
  if (!sync::seldom(options)) {
    period.occasions.push_back({{}, 0, 1});
    return period;
  }
  const bool outer = schedule.has_outer();
  if (outer) period.steps = options.slowmo_frequency;
  if (options.kind != "diloco" && !sync::pushes(options)) period.steps = std::lcm(period.steps, options.localsgd_frequency);
  if (sync::pushes(options)) {
    std::size_t distances = 1;  // that follow each other
    while (1 << distances < nodes) ++distances;
    period.steps *= distances;
  }
  for (std::size_t step = 1; step <= period.steps; ++step) {
    const sync::Actions now = schedule.after(step);
    const int hop = now.push ? sync::Schedule::hop(schedule.pushes_before(step), nodes) : 0;
    const auto same = [&](const Occasion& other) {
      const sync::Actions& then = other.actions;
      return then.average == now.average && then.push == now.push && then.outer == now.outer && other.hop == hop;
    };
    const auto found = std::find_if(period.occasions.begin(), period.occasions.end(), same);
    if (found == period.occasions.end()) {
      period.occasions.push_back({now, hop, 1});
    } else {
      ++found->steps;
    }
  }
  return period;
}

Meetings::Meetings(const sync::SyncOptions& options, const zero::EngineOptions& engine, int in_step, const Cluster& cluster,
                   const Collectives& collectives, Rehearsal& rehearsal, Timeline& timeline)
    : schedule_(options, cluster.ranks() / in_step),
      overlaps_(options.sgp_overlap),
      in_step_(in_step),
      collectives_(&collectives),
      rehearsal_(&rehearsal),
      time_(&timeline) {
  const int ranks = cluster.ranks(), nodes = ranks / in_step;
  if (!sync::seldom(options)) return;
  std::vector<std::vector<std::size_t>> blocks;
  for (int local = 0; local < in_step; ++local) {
    blocks.push_back(blocks_across(engine, local, in_step, nodes, type_of_means(options)));
  }
  const Grouping across = Grouping::alike(ranks, in_step), node = Grouping::neighbours(ranks, in_step);
  reduce_ = collectives.reduce_scatter(across, blocks);
  gather_ = collectives.all_gather(across, blocks);
  reports_ = collectives.small(Grouping::neighbours(ranks, ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto of_nodes = blocks_across(engine, rank % in_step, in_step, nodes, master_type);
    shard_bytes_.push_back(std::accumulate(of_nodes.begin(), of_nodes.end(), std::size_t{0}));
  }
  gathers_in_node_ = in_step > 1 && !zero::stages.at(static_cast<std::size_t>(engine.zero.stage)).shards_optimizer;
  if (gathers_in_node_) {
    in_node_ = collectives.all_gather(node, {{shard_bytes_.begin(), shard_bytes_.begin() + in_step}});
  }
}

/// As Synchroniser::after() and its caller have it.
void Meetings::after(const Occasion& occasion) {
  const sync::Actions& actions = occasion.actions;
  if (!actions.average && !actions.push && !actions.outer && !pushing_) return;
  rehearsal_->settle();
  if (pushing_) time_->wait(*pushing_);
  pushing_.reset();
  if (actions.average) average();
  if (actions.push) push(occasion.hop);
  const bool averages = actions.outer && schedule_.averages_outer();
  if (averages) average();
  if (gathers_in_node_) time_->run(Operation::all_gather, in_node_);
  rehearsal_->publish();
  if (actions.average || averages) time_->run(Operation::all_gather, reports_);
}

void Meetings::average() {
  time_->run(Operation::reduce_scatter, reduce_);
  time_->run(Operation::all_gather, gather_);
}

void Meetings::push(int hop) {
  const Timeline::Pending pushing = time_->start(Operation::send, collectives_->shift(hop * in_step_, shard_bytes_));
  if (overlaps_) {
    pushing_ = pushing;
  } else {
    time_->wait(pushing);
  }
}

}  // namespace shoal::plan
