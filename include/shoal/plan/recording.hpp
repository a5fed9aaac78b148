// SPDX-License-Identifier: Apache-2.0
// What every rank does in some steps: computation, collectives that it starts, messages, and waits. All ranks of a stage do
// the same in the same order, each with its own partners and bytes. A run without pipelines has one stage.
//
// [Note: lanes] A collective consists of exchanges that follow each other while the rank computes: between kernels it moves
// them on. A simulator's process does one thing after another, so such a collective gets a process of its own, a lane: it
// begins when the rank tells it to, and tells the rank when it has ended. A rank has as many lanes as collectives are in
// flight at the same time. A collective that is awaited as soon as it has started needs none: the rank makes its exchanges
// itself.
//
// In a pipeline the borders that go to one part, or come from it, have a lane at each end, too. So they follow each other,
// as messages of one connection do, and as the plan lets them: of two that a simulator starts at the same time, each would
// take twice as long. The lane that has received a border tells the one that sent it.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/plan/pipeline_step.hpp"
#include "shoal/plan/sync_costs.hpp"

namespace shoal::plan {

struct RecordedOperation {
  OperationKind kind = OperationKind::all_gather;
  bool control = false;  ///< a few numbers, as in Cost
  StepsOfRank steps_of;
  int lane = 0;  ///< 0: the rank itself; otherwise 1 to Recording::lanes
};

/// What each rank of a stage sends to the rank of another stage with the same data-parallel number, or receives from it.
struct RecordedMessage {
  bool sends = false;
  int other = 0;                 ///< the stage that receives or sends it
  int lane = 0, other_lane = 0;  ///< here and there; 0: the ranks themselves, which await it as soon as it has started
  int tag = 0;                   ///< from 0
  /// By data-parallel rank; a single entry is that of all ranks. Without bytes there is no message.
  std::vector<std::size_t> bytes;
};

struct RecordedAction {
  enum class Kind { compute, start, wait, start_message, wait_for_message };
  Kind kind = Kind::compute;
  double seconds = 0;  ///< of a computation
  /// Index in Recording::operations, or in Recording::messages. The rank itself makes an operation on lane 0 at its start.
  std::size_t number = 0;
};

struct Recording {
  std::vector<std::vector<RecordedAction>> actions;  ///< by stage; rank r is in stage r / (ranks / stages)
  std::vector<RecordedOperation> operations;
  std::vector<RecordedMessage> messages;
  int lanes = 0;
  bool settled = false;  ///< nothing was in flight when the last event ended, and all ranks ended it at the same time
};

/// Records these events, one after another, from the first micro-batch to the arrival of the last update. Arguments as for
/// step_time().
Recording record(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                 const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic,
                 const std::vector<SyncEvent>& events);

/// Records so many steps of pipelines, from the first turn to the arrival of the last update. Arguments as for
/// pipeline_step(). Each stage executes its program (pipeline/program.hpp, Order::early) as pipeline::Runner does, and with
/// it the schedule of its ranks as pipeline_step() does. Ranks do not share
/// processors in the simulator, and links have no credit.
Recording record(const zero::EngineOptions& options, const PipelinePlan& plan, const Cluster& cluster,
                 const NetworkModel& network, const Arithmetic& arithmetic, std::size_t steps);

}  // namespace shoal::plan
