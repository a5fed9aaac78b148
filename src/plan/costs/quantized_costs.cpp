// SPDX-License-Identifier: Apache-2.0
// The costs of collectives in INT8 and INT4.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "plan/costs/at.hpp"
#include "plan/costs/group_places.hpp"
#include "shoal/plan/collective_costs.hpp"

namespace shoal::plan {

namespace {

std::size_t elements_of(const std::vector<std::size_t>& spans) {
  return std::accumulate(spans.begin(), spans.end(), std::size_t{0});
}

std::size_t elements_of(const BlockSpans& blocks) {
  std::size_t elements = 0;
  for (const auto& spans : blocks) elements += elements_of(spans);
  return elements;
}

}  // namespace

Cost CollectiveCosts::quantized_all_gather(const Grouping& grouping, const std::vector<BlockSpans>& blocks,
                                           const kernels::QuantFormat& format) const {
  std::vector<std::vector<std::size_t>> bytes;
  std::size_t largest_block = 0, largest = 0;
  for (const BlockSpans& of_group : blocks) {
    bytes.emplace_back();
    for (const auto& spans : of_group) {
      bytes.back().push_back(comm::quantized_block_bytes(spans, format));
      largest_block = std::max(largest_block, elements_of(spans));
    }
    largest = std::max(largest, elements_of(of_group));
  }
  Cost cost = all_gather(grouping, bytes);
  const Codec codec = network_->codec(format.bits);
  cost.before_s = static_cast<double>(largest_block) * codec.quantize_s;
  cost.after_s = static_cast<double>(largest) * codec.dequantize_s;
  if (!cost.steps_of) return cost;
  cost.steps_of = [sends = std::move(cost.steps_of), before_s = cost.before_s, after_s = cost.after_s](int rank) {
    std::vector<OperationStep> steps = sends(rank);
    if (steps.empty()) return steps;
    steps.front().before_s = before_s;
    steps.back().after_s = after_s;
    return steps;
  };
  return cost;
}

Cost CollectiveCosts::quantized_reduce_scatter(const Grouping& grouping, const std::vector<BlockSpans>& blocks,
                                               int ranks_per_node, const comm::ReduceFormats& formats) const {
  Cost cost;
  cost.sent.resize(at(cluster_->ranks()));
  std::size_t largest = 0;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const std::vector<int>& group = grouping.groups[g];
    const BlockSpans& of_group = blocks[std::min(g, blocks.size() - 1)];
    for (int i = 0; i < static_cast<int>(group.size()); ++i) {
      cost.sent[at(group[at(i)])] = comm::quantized_reduce_traffic(i, ranks_per_node, of_group, formats);
    }
    largest = std::max(largest, elements_of(of_group));
  }
  const int nodes = static_cast<int>(grouping.groups.front().size()) / ranks_per_node;
  add_seconds(cost, ranks_per_node > 1 ? 1 : 0, nodes > 1 ? 1 : 0);
  const auto locals = static_cast<double>(ranks_per_node);
  const auto elements = static_cast<double>(largest), column = elements / locals;  // column: blocks of one local rank
  const Codec in_node = network_->codec(formats.node.bits), across = network_->codec(formats.across.bits);
  if (ranks_per_node > 1) {
    cost.before_s = (elements - column) * in_node.quantize_s;
    cost.between_s = column * (locals - 1) * in_node.dequantize_s;
  }
  if (nodes > 1) {
    cost.between_s += column * (nodes - 1) / nodes * across.quantize_s;
    cost.after_s = column / nodes * (nodes - 1) * across.dequantize_s;
  }
  if (network_->queued) return cost;
  cost.steps_of = [places = std::make_shared<const GroupPlaces>(grouping), blocks, ranks_per_node, formats,
                   seconds = std::array{cost.before_s, cost.between_s, cost.after_s}](int rank) {
    comm::QuantizedReducePlan plan = comm::quantized_reduce_plan(places->index_of(rank), ranks_per_node,
                                                                 of_group(blocks, places->group_of(rank)), formats);
    return std::vector<OperationStep>{{seconds[0], places->in_run(rank, std::move(plan.node)), seconds[1]},
                                      {0, places->in_run(rank, std::move(plan.across)), seconds[2]}};
  };
  return cost;
}

}  // namespace shoal::plan
