// SPDX-License-Identifier: Apache-2.0
// What a step of a pipeline sends, and how long it takes.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/model/part.hpp"
#include "shoal/pipeline/border.hpp"
#include "shoal/plan/step_time.hpp"

namespace shoal::plan {

/// Pipelines of shape.stages stages, each stage of D data-parallel ranks: rank = stage D + d (comm::Axes).
struct PipelinePlan {
  pipeline::ScheduleShape shape;  ///< shape.stage does not matter
  pipeline::Lists lists;
  std::vector<std::vector<model::Part>> parts;  ///< by stage
  std::vector<zero::StepOrder> orders;          ///< by stage: the actions of its list, and which of them keep activations
  std::size_t border_bytes = 0;
};

struct PipelineStep {
  StepTime time;
  /// By rank of the run: borders and copies (send), and the reductions and gathers in its stage.
  std::vector<Sent> sent;
  double idle_share =
      0;  ///< of the time until the last pass ends, that in which a stage computes none; the mean over stages
  double ideal_idle_share = 0;
};

/// options: the engine's of all stages, without parts. arithmetic: of a data-parallel rank that would compute the model as a
/// whole, without recomputing.
///
/// Bytes are exact. Time model:
/// - a part takes its share of the model's operations (model::costs()), at the speed of a rank while all compute. Where
/// ranks
///   share processors, they compute faster while others wait (Speedup);
/// - a border takes one exchange over its link. All that goes over the link of a node in one direction at the same time,
///   borders and messages of a stage's ranks, shares its rate (fluid_clock.hpp). Borders of the same part and kind, or of
///   the skip connection and the same kind, follow each other. A border is sent when there is a buffer for it, as in a run;
/// - the messages of a stage's ranks start, and passes wait for them, where the engine does that (zero::StepSchedule); a
/// pass
///   that waits delays what other stages do with its border;
/// - then come what the ends of the model send each other of a tied embedding; losses and norm, which all ranks exchange;
/// and
///   the update of each stage, which then begins its next step. In stages 1 and 2 of ZeRO the gather of parameters goes on
///   during the first passes of that step.
/// compute_s is that of the stage that computes most; exposed_s is all else, so it includes waiting for other stages.
PipelineStep pipeline_step(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                           const NetworkModel& network, const Arithmetic& arithmetic);

/// The least number of turns with which the ideal idle share is at most half of that with shape.turns; a multiple of
/// shape.stages if the schedule needs whole groups.
std::size_t turns_of_half_idle(const pipeline::ScheduleShape& shape, bool whole_groups);

}  // namespace shoal::plan
