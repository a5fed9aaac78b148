// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline share: the links of nodes, in each direction, and processors.
#pragma once

#include <vector>

#include "plan/pipeline/fluid_clock.hpp"
#include "plan/pipeline/pipeline_places.hpp"

namespace shoal::plan {

class PipelineResources {
 public:
  using Used = std::vector<FluidClock::Resource>;

  PipelineResources(FluidClock& clock, const StagePlaces& places, const NetworkModel& network, const Speedup& speedup);

  /// Of the computations of a stage. They are none if each rank has processors of its own.
  const Used& processors(int stage) const { return at(stage).processors; }
  /// How many times as fast a stage computes at most as it does while all compute.
  double fastest() const { return fastest_; }

  /// Of the operations among the ranks of a stage.
  const Used& links_in_node(int stage) const { return at(stage).links_in_node; }
  const Used& links_across(int stage) const { return at(stage).links_across; }
  /// Of what a stage sends to another one.
  Used links(const Transfer& transfer) const;

 private:
  struct OfStage {
    Used processors, links_in_node, links_across;
  };
  struct Directions {
    FluidClock::Resource out = 0, in = 0;
  };
  const OfStage& at(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }

  double fastest_;
  std::vector<Directions> node_links_;   // to other nodes
  std::vector<Directions> stage_links_;  // of the ranks of a stage, within their nodes
  std::vector<OfStage> stages_;
};

}  // namespace shoal::plan
