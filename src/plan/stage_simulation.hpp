// SPDX-License-Identifier: Apache-2.0
// One stage of a pipeline in simulated time: what its passes compute, and the messages of its data-parallel ranks as
// zero::StepSchedule has them.
#pragma once

#include <vector>

#include "shoal/pipeline/timeline.hpp"
#include "shoal/plan/step_simulation.hpp"

namespace shoal::plan {

class StageSimulation {
 public:
  /// options: the engine's of this stage. times: of the passes of its parts, in which nothing is waited for. ranks: of the
  /// stage.
  StageSimulation(const zero::EngineOptions& options, const std::vector<pipeline::PassTimes>& times, int ranks,
                  const CollectiveCosts& collectives, const Cluster& cluster);

  /// The next pass of the list, which begins at this moment or when the stage is ready. Returns the seconds from then to its
  /// end, with those in which it waits for messages.
  double pass(const pipeline::Action& action, double moment);
  /// After the last pass, not before `moment`: waits until the gradients are reduced.
  void reduce(double moment);
  /// After losses were exchanged, which all stages wait for until `moment`: all else until the next step. update_s: of
  /// the optimizer.
  void update(double moment, double update_s);

  double now_s() const { return time_.now_s(); }
  Timeline& time() { return time_; }
  /// Elements that the first rank of the stage updates.
  double optimizer_elements() const;

 private:
  struct PartOfModel {
    bool whole;  // backward passes find all activations
    UseSeconds use_s;
  };
  void wait_until(double moment);

  zero::StepSchedule schedule_;
  TimedExecution execution_;
  Timeline time_;
  std::vector<PartOfModel> parts_;
  zero::StepItems after_reductions_;  // of this step
};

}  // namespace shoal::plan
