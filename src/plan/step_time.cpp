// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_time.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "shoal/comm/tree_reduce.hpp"
#include "shoal/model/model.hpp"
#include "shoal/zero/gather_plan.hpp"
#include "shoal/zero/messages.hpp"
#include "shoal/zero/stages.hpp"
#include "shoal/zero/turns.hpp"

namespace shoal::plan {

namespace {

using Kind = Transfer::Kind;
using Behind = Transfer::Behind;
using Units = std::vector<model::UnitLayout>;

constexpr double forward_share = 1.0 / 3;  // of a micro-batch: two products in backward for each of forward

std::vector<std::size_t> blocks_of(const zero::Message& message, const Units& units, int ranks, DType type) {
  std::vector<std::size_t> blocks;
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t elements = 0;
    for (const zero::Part& part : message.parts) {
      elements += zero::block_of(part, units[static_cast<std::size_t>(part.unit)].elements, rank, ranks).size();
    }
    blocks.push_back(elements * size_of(type));
  }
  return blocks;
}

/// Gathers of shared-out parameters in one pass of forward and backward.
std::vector<Transfer> gathers(const zero::EngineOptions& options, const Units& units,
                              const std::vector<zero::Holding>& holdings, int ranks, std::size_t times) {
  std::vector<std::size_t> bytes;
  std::vector<std::string> names;
  for (std::size_t u = 0; u < units.size(); ++u) {
    bytes.push_back(holdings[u].gathered ? holdings[u].elements * size_of(options.dtype) : 0);
    names.push_back(units[u].name);
  }
  zero::ZeroOptions zero = options.zero;
  if (!options.gradients.overlap) zero.prefetch_units = 0;
  const auto plan = zero::plan_gathers(model::visits(options.model, options.capacity), bytes, names, zero);
  std::vector<Transfer> result;
  for (const zero::Residence& residence : plan.residences) {
    std::vector<std::size_t> blocks;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t elements = units[static_cast<std::size_t>(residence.unit)].elements;
      blocks.push_back(zero::shard_of(elements, rank, ranks).size() * size_of(options.dtype));
    }
    result.push_back({Kind::all_gather, zero.prefetch_units > 0 ? Behind::micro_batch : Behind::nothing, blocks, times});
  }
  return result;
}

}  // namespace

std::vector<Transfer> transfers(const zero::EngineOptions& options, int ranks) {
  if (ranks == 1) return {};
  const Units units = model::layout(options.model);
  zero::Placement placement;
  placement.ranks = ranks;
  const std::vector<zero::Holding> holdings = zero::holdings(units, options.zero, placement);
  const bool every_turn = zero::stages.at(static_cast<std::size_t>(options.zero.stage)).shards_gradients;
  const zero::Turns turns(options.micro_batches, ranks, every_turn);
  const std::size_t micro_batches = turns.rounds * turns.per_round;
  std::vector<int> backwards(units.size()), published;
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (holdings[u].published) published.push_back(static_cast<int>(u));
  }

  std::vector<Transfer> all;
  const bool whole = std::none_of(holdings.begin(), holdings.end(), [](const auto& h) { return h.updated_in_part(); });
  const std::size_t most = options.gradients.message_elements;
  for (const zero::Message& message : zero::cut_messages(units, backwards, ranks, most)) {
    const std::vector<std::size_t> blocks = blocks_of(message, units, ranks, options.gradients.dtype);
    all.push_back({Kind::reduce_scatter, every_turn ? Behind::micro_batch : Behind::backward, blocks,
                   every_turn ? micro_batches : turns.rounds});
    if (whole) all.push_back({Kind::all_gather, Behind::nothing, blocks, 1});
  }
  for (const zero::Message& message : zero::cut_messages(units, published, ranks, most)) {
    all.push_back({Kind::all_gather, Behind::forward, blocks_of(message, units, ranks, options.dtype), 1});
  }
  const std::vector<Transfer> gathered = gathers(options, units, holdings, ranks, micro_batches);
  all.insert(all.end(), gathered.begin(), gathered.end());
  return all;
}

StepTime step_time(const zero::EngineOptions& options, const Cluster& cluster, const NetworkModel& network,
                   double compute_s) {
  StepTime time;
  time.compute_s = compute_s;
  const zero::Turns turns(options.micro_batches, cluster.ranks());
  const double micro_batch_s = compute_s / static_cast<double>(turns.rounds * turns.per_round);
  std::vector<Sent> by_rank(static_cast<std::size_t>(cluster.ranks()));
  std::array<double, 4> behind{};  // seconds of communication, by what may hide them
  for (const Transfer& transfer : transfers(options, cluster.ranks())) {
    const auto bytes = static_cast<double>(std::accumulate(transfer.blocks.begin(), transfer.blocks.end(), std::size_t{0}));
    const bool reduces = transfer.kind == Kind::reduce_scatter;
    const double once =
        reduces ? tree_reduce_seconds(network, cluster, bytes) : tree_gather_seconds(network, cluster, bytes);
    behind[static_cast<std::size_t>(transfer.behind)] += once * static_cast<double>(transfer.times);
    for (int rank = 0; rank < cluster.ranks(); ++rank) {
      const comm::Traffic once_sent = comm::tree_traffic(rank, reduces, transfer.blocks, [&](int other) {
        return other / cluster.ranks_per_node == rank / cluster.ranks_per_node;
      });
      Sent& sent = by_rank[static_cast<std::size_t>(rank)];
      comm::Traffic& sum = reduces ? sent.reduced : sent.gathered;
      sum.intra += once_sent.intra * transfer.times;
      sum.inter += once_sent.inter * transfer.times;
    }
  }
  time.sent = *std::max_element(by_rank.begin(), by_rank.end(),
                                [](const Sent& a, const Sent& b) { return a.total().total() < b.total().total(); });
  std::array<double, 4> hiding{};  // seconds of arithmetic that may hide them
  if (options.gradients.overlap) {
    hiding[static_cast<std::size_t>(Behind::backward)] =
        static_cast<double>(turns.rounds) * micro_batch_s * (1 - forward_share);
    hiding[static_cast<std::size_t>(Behind::micro_batch)] = compute_s;
    hiding[static_cast<std::size_t>(Behind::forward)] = micro_batch_s * forward_share;
  }
  for (std::size_t i = 0; i < behind.size(); ++i) {
    time.communication_s += behind[i];
    time.exposed_s += std::max(0.0, behind[i] - hiding[i]);
  }
  return time;
}

double compute_seconds(const zero::EngineOptions& options, int ranks, double gflops) {
  const double tokens =
      static_cast<double>(options.micro_batches * options.capacity.sequences * options.capacity.length) / ranks;
  const double again = options.capacity.checkpoint_interval != 0 ? 1 + forward_share : 1;
  return tokens * model::flops_per_token(options.model) * again / (gflops * 1e9);
}

}  // namespace shoal::plan
