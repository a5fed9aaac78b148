// SPDX-License-Identifier: Apache-2.0
// One stage of a pipeline in simulated time: what its passes compute, and the messages of its data-parallel ranks as
// zero::StepSchedule has them. The estimate of a step executes it (pipeline_step.cpp), and so does the recording of a step
// for a simulator of networks (pipeline_recording.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/timed_execution.hpp"

namespace shoal::plan {

class StageSimulation {
 public:
  /// Arguments as for pipeline_step().
  StageSimulation(const zero::EngineOptions& options, const PipelinePlan& plan, std::size_t stage, const Cluster& cluster,
                  const CollectiveCosts& collectives, const Arithmetic& arithmetic);

  /// Seconds that an action of the stage's list computes.
  double seconds(std::size_t action) const;
  /// Elements that the first rank of the stage updates.
  double optimizer_elements() const;

  /// Its bytes are those of the stage's ranks.
  RankClock& time() { return time_; }
  double now_s() const { return time_.now_s(); }
  /// The stage does nothing until then; its messages go on.
  void wait_until(double moment);

  // A step, in the pieces that zero::StepSchedule has.

  /// The next action of the list, which is this one.
  void pass(std::size_t action);
  void finish_gradients() { execute(schedule_.finish_gradients()); }
  void start_gradient_gather() { execute(schedule_.start_gradient_gather()); }
  /// update_s: seconds of the optimizer.
  void update(double update_s) { execution_.execute(schedule_.update(), {}, update_s, time_); }
  void wait_for_parameters() { execute(schedule_.wait_for_parameters()); }
  void publish() { execute(schedule_.publish()); }

 private:
  void execute(const zero::StepItems& items) { execution_.execute(items, {}, 0, time_); }

  zero::StepOrder order_;
  zero::StepSchedule schedule_;
  TimedExecution execution_;
  RankClock time_;
  std::vector<UseSeconds> use_s_;  // by part
};

}  // namespace shoal::plan
