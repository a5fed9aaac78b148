// SPDX-License-Identifier: Apache-2.0
// What one stage of a pipeline does in a step: the uses of its passes and the messages of its data-parallel ranks, as
// zero::StepSchedule has them, with their costs. The estimate of a step executes it (pipeline_run.cpp), and so does the
// recording of a step for a simulator of networks (pipeline_recording.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/timed_execution.hpp"

namespace shoal::plan {

class StageSchedule {
 public:
  /// Arguments as for pipeline_step().
  StageSchedule(const zero::EngineOptions& options, const PipelinePlan& plan, std::size_t stage, const Cluster& cluster,
                const CollectiveCosts& collectives, const Arithmetic& arithmetic);

  /// The items of this action. To be called once for each action, in the order of the list.
  zero::StepItems pass(std::size_t action) { return schedule_.pass(order_[action]); }
  /// For the end of the step.
  zero::StepSchedule& schedule() { return schedule_; }

  std::size_t part_of(std::size_t action) const { return order_[action].part; }
  const UseSeconds& use_seconds(std::size_t part) const { return use_s_[part]; }
  const StepMessages& messages() const { return messages_; }
  /// Elements that the first rank of the stage updates.
  double optimizer_elements() const;

 private:
  zero::StepOrder order_;
  zero::StepSchedule schedule_;
  StepMessages messages_;
  std::vector<UseSeconds> use_s_;  // by part
};

/// Those of all stages.
std::vector<StageSchedule> stage_schedules(const zero::EngineOptions& options, const PipelinePlan& plan,
                                           const Cluster& cluster, const CollectiveCosts& collectives,
                                           const Arithmetic& arithmetic);
/// Seconds of the optimizer on each stage: of all, its share of the elements.
std::vector<double> update_seconds(const std::vector<StageSchedule>& stages, const Arithmetic& arithmetic);

}  // namespace shoal::plan
