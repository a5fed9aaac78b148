// SPDX-License-Identifier: Apache-2.0
// What every rank does in some steps, recorded from the timeline: computation, collectives that it starts, and waits. All
// ranks do the same in the same order, each with its own partners and bytes.
//
// [Note: lanes] A collective consists of exchanges that follow each other while the rank computes: between kernels it moves
// them on. A simulator's process does one thing after another, so such a collective gets a process of its own, a lane: it
// begins when the rank tells it to, and tells the rank when it has ended. A rank has as many lanes as collectives are in
// flight at the same time. A collective that is awaited as soon as it has started needs none: the rank makes its exchanges
// itself.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/plan/sync_costs.hpp"

namespace shoal::plan {

struct RecordedOperation {
  OperationKind kind = OperationKind::all_gather;
  bool control = false;  ///< a few numbers, as in Cost
  StepsOfRank steps_of;
  int lane = 0;  ///< 0: the rank itself; otherwise 1 to Recording::lanes
};

struct RecordedAction {
  enum class Kind { compute, start, wait };
  Kind kind = Kind::compute;
  double seconds = 0;         ///< of a computation
  std::size_t operation = 0;  ///< index in Recording::operations. The rank itself makes its operation at its start
};

struct Recording {
  std::vector<RecordedAction> actions;
  std::vector<RecordedOperation> operations;
  int lanes = 0;
  bool settled = false;  ///< nothing was in flight when the last event ended
};

/// Records these events, one after another, from the first micro-batch to the arrival of the last update. Arguments as for
/// step_time().
Recording record(const zero::EngineOptions& options, const sync::SyncOptions& sync, int sync_group_size,
                 const Cluster& cluster, const NetworkModel& network, const Arithmetic& arithmetic,
                 const std::vector<SyncEvent>& events);

}  // namespace shoal::plan
