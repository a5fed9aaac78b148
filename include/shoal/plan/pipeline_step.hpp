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
  double idle_share = 0;  ///< of the passes, until the last one ends; the mean over stages
  double ideal_idle_share = 0;
};

/// options: the engine's of all stages, without parts. arithmetic: of a data-parallel rank that would compute the model as a
/// whole, without recomputing.
///
/// Bytes are exact. Time model:
/// - a part takes its share of the model's operations (model::costs());
/// - a border takes one exchange over its link, which all ranks of a node share that send at the same time; borders of the
///   same part and kind, or of the skip connection and the same kind, follow each other, others do not delay each other
///   (pipeline::timeline(), with the buffers of a run), except that no link carries all its borders in less than the sum of
///   their times;
/// - the messages of a stage's ranks start, and passes wait for them, where the engine does that (zero::StepSchedule); they
///   and borders do not delay each other, and a pass that waits delays what other stages do with its border;
/// - then come losses and norm, which all ranks exchange, and the update of the largest stage. In stages 1 and 2 of ZeRO the
///   gather of its parameters goes on during the first passes of the next step;
/// - what the ends of the model send each other of a tied embedding is not hidden either.
/// compute_s is that of the stage that computes most; exposed_s is all else, so it includes waiting for other stages.
PipelineStep pipeline_step(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                           const NetworkModel& network, const Arithmetic& arithmetic);

/// The least number of turns with which the ideal idle share is at most half of that with shape.turns; a multiple of
/// shape.stages if the schedule needs whole groups.
std::size_t turns_of_half_idle(const pipeline::ScheduleShape& shape, bool whole_groups);

}  // namespace shoal::plan
