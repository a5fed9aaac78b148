// SPDX-License-Identifier: Apache-2.0
// What the ranks of one stage of a pipeline exchange with each other in a step, and which ranks these are.
#pragma once

#include <vector>

#include "pipeline_stage.hpp"
#include "shoal/pipeline/timeline.hpp"
#include "shoal/plan/pipeline_step.hpp"

namespace shoal::plan {

/// The ranks of a run with pipelines.
class Places {
 public:
  Places(const PipelinePlan& plan, const Cluster& cluster);
  int data_ranks() const { return of_stage_; }
  int rank(int stage, int d) const { return stage * of_stage_ + d; }
  int node(int rank) const { return rank / on_node_; }
  bool crosses(int from, int to, int d) const { return node(rank(from, d)) != node(rank(to, d)); }

  /// One border of all ranks of a stage, which send at the same time.
  double seconds(int from, int to, std::size_t bytes, const NetworkModel& network) const;

 private:
  int of_stage_, on_node_;
};

/// Seconds of a stage's reductions and gathers.
struct Reductions {
  double exposed_s = 0;  ///< of gradients, after the last pass; in stage 0 of ZeRO their gather, too
  double gather_s = 0;   ///< of parameters, after their update
  double small_s = 0;    ///< losses and norm
  double total_s = 0;    ///< all of it
  /// By part of the stage, means over its turns: gradients reduced and parameters gathered during a pass.
  std::vector<pipeline::PassTimes> in_passes;
};

/// Adds the bytes of the stage's ranks to `sent`.
Reductions reductions_of(const StageReductions& stage, int number, const Places& places, std::vector<Sent>& sent);

}  // namespace shoal::plan
