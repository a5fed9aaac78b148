// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/collective_costs.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "plan/costs/at.hpp"
#include "plan/costs/group_places.hpp"
#include "shoal/comm/queued_exchanges.hpp"
#include "shoal/comm/tree_reduce.hpp"

namespace shoal::plan {

namespace {

std::size_t bytes_received(const comm::PlannedExchange& exchange) {
  std::size_t bytes = 0;
  for (const comm::PartnerBytes& with : exchange) bytes += with.received;
  return bytes;
}

}  // namespace

Grouping Grouping::consecutive(int ranks, int count) {
  Grouping result;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank % count == 0) result.groups.emplace_back();
    result.groups.back().push_back(rank);
  }
  return result;
}

Grouping Grouping::same_position(int ranks, int count) {
  Grouping result;
  result.groups.resize(at(count));
  for (int rank = 0; rank < ranks; ++rank) result.groups[at(rank % count)].push_back(rank);
  return result;
}

Cost CollectiveCosts::reduce_scatter(const Grouping& grouping,
                                     const std::vector<std::vector<std::size_t>>& block_bytes) const {
  return tree(grouping, comm::TreeDirection::reduce_scatter, block_bytes);
}

Cost CollectiveCosts::all_gather(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& block_bytes) const {
  return tree(grouping, comm::TreeDirection::all_gather, block_bytes);
}

/// A reduce-scatter first goes within nodes, then across them ([Note: the tree on nodes] in comm/tree_reduce.hpp); an
/// all-gather first across nodes, then within them.
Cost CollectiveCosts::tree(const Grouping& grouping, comm::TreeDirection direction,
                           const std::vector<std::vector<std::size_t>>& block_bytes) const {
  const bool reduces = direction == comm::TreeDirection::reduce_scatter;
  Cost cost;
  cost.node_first = reduces;
  cost.sent.resize(at(cluster_->ranks()));
  std::uint64_t most = 0;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const std::vector<int>& group = grouping.groups[g];
    const auto& blocks = block_bytes[std::min(g, block_bytes.size() - 1)];
    for (int i = 0; i < static_cast<int>(group.size()); ++i) {
      comm::Traffic& sent = cost.sent[at(group[at(i)])];
      sent = comm::tree_traffic(i, direction, blocks,
                                [&](int other) { return node_of(group[at(other)]) == node_of(group[at(i)]); });
      most = std::max(most, sent.total());
    }
  }
  add_exchanges(cost, grouping, network_->queued);
  if (network_->queued && network_->gathers_apart && !reduces) cost.sequence = Sequence::gathers;
  if (reduces) cost.after_s = static_cast<double>(most) * network_->sum_s_per_byte;
  if (!network_->queued) cost.steps_of = tree_steps(grouping, direction, block_bytes);
  return cost;
}

StepsOfRank CollectiveCosts::tree_steps(const Grouping& grouping, comm::TreeDirection direction,
                                        const std::vector<std::vector<std::size_t>>& block_bytes) const {
  const double s_per_byte = direction == comm::TreeDirection::reduce_scatter ? network_->sum_s_per_byte : 0;
  return [places = std::make_shared<const GroupPlaces>(grouping), direction, block_bytes, s_per_byte](int rank) {
    std::vector<OperationStep> steps;
    for (comm::PlannedExchange& exchange :
         comm::tree_plan(places->index_of(rank), direction, of_group(block_bytes, places->group_of(rank)))) {
      const double sum_s = static_cast<double>(bytes_received(exchange)) * s_per_byte;
      steps.push_back({0, places->in_run(rank, std::move(exchange)), sum_s});
    }
    return steps;
  };
}

Cost CollectiveCosts::shift(int distance, const std::vector<std::size_t>& bytes) const {
  Cost cost;
  cost.sent.resize(bytes.size());
  bool within = false, across = false;
  for (int rank = 0; rank < cluster_->ranks(); ++rank) {
    const bool same_node = node_of((rank + distance) % cluster_->ranks()) == node_of(rank);
    (same_node ? cost.sent[at(rank)].intra : cost.sent[at(rank)].inter) = bytes[at(rank)];
    (same_node ? within : across) = true;
  }
  add_seconds(cost, within ? 1 : 0, across ? 1 : 0);
  cost.steps_of = [distance, bytes](int rank) {
    const int ranks = static_cast<int>(bytes.size());
    const int to = (rank + distance) % ranks, from = (rank + ranks - distance % ranks) % ranks;
    return std::vector<OperationStep>{{0, {{to, bytes[at(rank)], 0}, {from, 0, bytes[at(from)]}}, 0}};
  };
  return cost;
}

Cost CollectiveCosts::small(const Grouping& grouping) const {
  Cost cost;
  cost.sent.resize(at(cluster_->ranks()));
  add_exchanges(cost, grouping, false);  // numbers on the host: MPI sends them
  const std::vector<std::size_t> one_number_each(grouping.groups.front().size(), sizeof(double));
  cost.steps_of = tree_steps(grouping, comm::TreeDirection::all_gather, {one_number_each});
  cost.control = true;
  cost.sequence = Sequence::none;
  return cost;
}

/// Counts the exchanges of a tree: its levels within a node, and across nodes. On queued groups there is one at each of
/// both, and one more among nodes of other numbers of ranks than powers of two, which goes across nodes if there are
/// several.
void CollectiveCosts::add_exchanges(Cost& cost, const Grouping& grouping, bool queued) const {
  const std::vector<int>& group = grouping.groups.front();
  const auto on_its_node = [&](int rank) { return node_of(rank) == node_of(group.front()); };
  const int per_node = std::max(1, static_cast<int>(std::count_if(group.begin(), group.end(), on_its_node)));
  const int nodes = static_cast<int>(group.size()) / per_node;
  if (queued) {
    const int together = per_node & -per_node;
    const int in_node =
        nodes > 1 ? comm::queued_tree_exchanges(together, together) : comm::queued_tree_exchanges(per_node, together);
    return add_seconds(cost, in_node, nodes > 1 ? 1 : 0);
  }
  add_seconds(cost, per_node > 1 ? comm::tree_exchanges(per_node) : 0, nodes > 1 ? comm::tree_exchanges(nodes) : 0);
}

/// Within nodes the rank that sends most decides; across nodes, the bytes that all ranks of a node send over its link.
void CollectiveCosts::add_seconds(Cost& cost, int exchanges_in_node, int exchanges_across) const {
  if (network_->queued) cost.sequence = Sequence::calls;
  std::uint64_t by_rank = 0, by_node = 0, of_node = 0;
  for (std::size_t rank = 0; rank < cost.sent.size(); ++rank) {
    if (rank % at(cluster_->ranks_per_node) == 0) of_node = 0;
    by_rank = std::max(by_rank, cost.sent[rank].intra);
    by_node = std::max(by_node, of_node += cost.sent[rank].inter);
  }
  if (exchanges_in_node > 0) {
    cost.node_latency_s = exchanges_in_node * network_->node->latency_s;
    cost.node_s = cost.node_latency_s + static_cast<double>(by_rank) * network_->node->s_per_byte;
  }
  if (exchanges_across > 0) {
    cost.across_latency_s = exchanges_across * network_->across->latency_s;
    cost.across_s =
        cost.across_latency_s + static_cast<double>(by_node) * network_->across->s_per_byte / network_->ranks_per_node;
  }
}

}  // namespace shoal::plan
