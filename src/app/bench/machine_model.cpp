// SPDX-License-Identifier: Apache-2.0
#include "app/bench/machine_model.hpp"

#include "app/bench/bench_arithmetic.hpp"
#include "app/bench/link_credit.hpp"
#include "app/support/collective.hpp"
#include "shoal/comm/queued_exchanges.hpp"
#include "shoal/comm/tree_reduce.hpp"

namespace shoal::app {

namespace {

/// Fits the link that the tree's all-gathers of this kind of groups used. deviation: the largest of the fit.
std::optional<plan::Link> link_of(const std::vector<CommRow>& rows, const comm::Communicator& group, double& deviation) {
  std::vector<plan::Sample> samples;
  int exchanges = 1;
  for (const CommRow& row : rows) {
    if (row.group != group.name() || row.collective != "all_gather" || row.how != "tree") continue;
    samples.push_back({static_cast<double>(row.bytes) * (row.ranks - 1) / row.ranks, row.median_s});
    exchanges = group.queued() ? comm::queued_tree_exchanges(row.ranks, group.queued_ranks_per_node())
                               : comm::tree_exchanges(row.ranks);
  }
  const std::optional<plan::Line> line = plan::fit(samples);
  if (!line) return std::nullopt;
  deviation = plan::worst_deviation(*line, samples);
  return plan::Link{line->latency_s / exchanges, line->s_per_byte};
}

}  // namespace

std::optional<MachineModel> machine_model(comm::World& world, const std::vector<CommRow>& rows) {
  MachineModel model;
  model.network.queued = world.all().queued();
  model.network.ranks_per_node = static_cast<int>(largest(world.all(), world.node().size()));
  model.network.node = link_of(rows, world.node(), model.node_deviation);
  model.network.across = link_of(rows, world.across(), model.across_deviation);
  if (!model.network.node && !model.network.across) return std::nullopt;
  // On queued groups an exchange is not over when wait() returns, and links of that kind have no shapers.
  if (model.network.across && !model.network.queued) {
    model.network.across->credit_bytes = link_credit_bytes(world, *model.network.across);
  }
  model.network.sum_s_per_byte = sum_seconds_per_byte(world);
  model.network.int8 = codec_seconds(world, 8);
  model.network.int4 = codec_seconds(world, 4);
  model.gflops = peak_gflops(world);
  model.training = training_rates(world);
  return model;
}

}  // namespace shoal::app
