// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "shoal/base/error.hpp"
#include "shoal/model/segment_length.hpp"
#include "shoal/plan/sync_costs.hpp"

namespace shoal::plan {

namespace {

constexpr int steps_before = 2;  // before the measured one, so that it begins with the usual operations in flight

double rate_of(const std::map<std::size_t, double>& gflops, std::size_t width) {
  require(!gflops.empty(), "no rate of training");
  const auto above = gflops.lower_bound(width);
  if (above == gflops.begin()) return above->second;
  if (above == gflops.end()) return std::prev(above)->second;
  const auto below = std::prev(above);
  const auto log_of = [](std::size_t w) { return std::log(static_cast<double>(w)); };
  const double fraction = (log_of(width) - log_of(below->first)) / (log_of(above->first) - log_of(below->first));
  return below->second + fraction * (above->second - below->second);
}

/// Operations that activation checkpointing adds, for one sequence. Layers are the units between embedding and head.
double flops_again(const zero::EngineOptions& options) {
  return model::repeated_flops(model::costs(options.model, options.dtype, {}), {1, 1 + options.model.n_layer},
                               options.capacity.checkpoint_interval, true);
}

}  // namespace

StepTime step_time(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                   const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic) {
  const CollectiveCosts collectives(network, cluster);
  RankClock clock(cluster.ranks());
  StepSimulation simulation(options, sync_group_size, collectives, cluster, arithmetic, clock);
  SyncCosts sync_costs(sync, options, sync_group_size, cluster, collectives, simulation, clock);
  const Period period = period_of(sync, cluster.ranks() / sync_group_size);
  for (const SyncEvent& event : period.events) {
    clock.set_weight(0);
    for (int i = 0; i < steps_before; ++i) sync_costs.run(event);
    clock.set_weight(static_cast<double>(event.times) / static_cast<double>(period.steps));
    sync_costs.run(event);
  }

  StepTime time;
  time.compute_s = arithmetic.total_s();
  time.communication_s = clock.communication_s();
  time.exposed_s = std::max(0.0, clock.elapsed_s() - time.compute_s);
  set_sent(time, clock.sent(), cluster);
  return time;
}

void set_sent(StepTime& time, const std::vector<Sent>& sent, const Cluster& cluster) {
  time.sent = *std::max_element(sent.begin(), sent.end(),
                                [](const Sent& a, const Sent& b) { return a.total().total() < b.total().total(); });
  const auto each = static_cast<std::size_t>(cluster.ranks_per_node);
  for (std::size_t first = 0; first < sent.size(); first += each) {
    double of_node = 0;
    for (std::size_t rank = first; rank < first + each; ++rank) of_node += sent[rank].total().inter;
    time.across_per_node = std::max(time.across_per_node, of_node);
  }
}

Arithmetic arithmetic(const zero::EngineOptions& options, int sync_group_size, const TrainingRates& rates) {
  const double tokens =
      static_cast<double>(options.micro_batches * options.capacity.sequences * options.capacity.length) / sync_group_size;
  const auto T = static_cast<double>(options.model.block_size);
  const double flops_per_token = model::flops_per_token(options.model) + flops_again(options) / T;
  const std::size_t width = options.model.kind == model::ModelKind::mlp ? options.model.inner() : options.model.n_embd;
  Arithmetic result;
  result.speedup = rates.speedup;
  result.micro_batches_s = tokens * flops_per_token / (rate_of(rates.gflops, width) * 1e9);
  zero::RankGroups first;
  first.ranks = sync_group_size;
  for (const zero::ShardLayout& layout : zero::shard_layouts(model::layout(options.model), options.zero, first)) {
    result.update_s += static_cast<double>(layout.optimizer.size()) * rates.update_s;
  }
  return result;
}

}  // namespace shoal::plan
