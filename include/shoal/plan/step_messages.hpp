// SPDX-License-Identifier: Apache-2.0
// The costs of the messages of a step, as zero::StepSchedule has them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shoal/plan/collective_costs.hpp"
#include "shoal/zero/step_schedule.hpp"

namespace shoal::plan {

/// Messages of the same size refer to the same Cost.
using SharedCost = std::shared_ptr<const Cost>;

struct StepMessages {
  /// By unit: cost of its gather from all ranks of the group, and of that within the hpZ group; null if there is none.
  std::vector<SharedCost> gather, gather_hpz;
  std::vector<SharedCost> reduce;            ///< by bucket of gradients
  std::vector<SharedCost> gather_gradients;  ///< by bucket; empty unless every rank updates all parameters
  std::vector<SharedCost> publish;           ///< by bucket of updated parameters
  /// An exchange of a few numbers: of the group, or if its ranks are a stage of a pipeline, of all ranks of the run.
  SharedCost small;

  /// Of the message that an item starts.
  const Cost& of(const zero::StepItem& item) const;
};

/// Refuses (bad_input) a step whose simulation would take minutes, because each of its events is simulated. ranks: of the
/// run, for the error text.
void check_effort(const zero::AccumulationPlan& accumulation, std::size_t events_of_a_micro_step, int ranks);

/// The messages of a group of ranks; all groups of the run send the same at the same time. Null costs on a rank alone.
StepMessages step_messages(const zero::EngineOptions& options, const zero::StepSchedule& schedule,
                           const CollectiveCosts& collectives, const Cluster& cluster);

}  // namespace shoal::plan
