// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/pipeline_resources.hpp"

#include <algorithm>

namespace shoal::plan {

/// Computations are counted in seconds that they take while all stages compute, so the processors of all nodes together do
/// one such second per second for each stage. A node does more of them if the others leave it their part.
PipelineResources::PipelineResources(FluidClock& clock, const StagePlaces& places, const NetworkModel& network,
                                     const Speedup& speedup)
    : fastest_(std::max(1.0, speedup.rank_alone)) {
  const double credit_s =
      network.across ? network.across->credit_bytes * network.across->s_per_byte / network.ranks_per_node : 0;
  const FluidClock::Resource machine = clock.add(places.stages());
  std::vector<FluidClock::Resource> processors;
  for (int node = 0; node < places.nodes(); ++node) {
    node_links_.push_back({clock.add(1, credit_s), clock.add(1, credit_s)});
    processors.push_back(clock.add(places.stages_together() * std::max(1.0, speedup.node_alone)));
  }
  for (int stage = 0; stage < places.stages(); ++stage) {
    const auto node = static_cast<std::size_t>(places.first_node(stage));
    stage_links_.push_back({clock.add(1), clock.add(1)});
    OfStage& of_stage = stages_.emplace_back();
    if (fastest_ > 1) of_stage.processors = {processors[node], machine};
    of_stage.links_in_node = {stage_links_.back().out, stage_links_.back().in};
    of_stage.links_across = {node_links_[node].out, node_links_[node].in};
  }
}

PipelineResources::Used PipelineResources::links(const Transfer& transfer) const {
  const std::vector<Directions>& of = transfer.crosses ? node_links_ : stage_links_;
  return {of[static_cast<std::size_t>(transfer.from)].out, of[static_cast<std::size_t>(transfer.to)].in};
}

}  // namespace shoal::plan
