// SPDX-License-Identifier: Apache-2.0
// The messages of a training step of zero::Engine, and their costs. The functions that a run calls decide what is sent and
// in which messages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shoal/plan/collective_costs.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::plan {

/// Collectives of gradients that are in flight at the same time, and as many of parameters: as in zero/gradients.cpp and
/// zero/parameters.cpp.
inline constexpr std::size_t most_in_flight = 2;

/// Messages of the same size refer to the same Cost.
using SharedCost = std::shared_ptr<const Cost>;

struct StepMessages {
  /// Of units that are gathered before their use (stage 3): in a micro-batch, or with EngineOptions::order in a step.
  zero::GatherPlan gathers;
  /// By unit: cost of its gather from all ranks of the group, and of that within the hpZ group; null if there is none.
  std::vector<SharedCost> gather, gather_hpz;

  std::vector<zero::Bucket> buckets;              ///< of gradients, in the order in which they are reduced
  std::vector<SharedCost> reduce;                 ///< by bucket
  std::vector<SharedCost> gather_gradients;       ///< by bucket; empty unless every rank updates all parameters
  std::vector<std::size_t> reduced_before_write;  ///< by unit: buckets to finish before its gradient is written
  std::vector<SharedCost> gather_parameters;      ///< by bucket of updated parameters
  std::vector<std::size_t> gathered_before_use;   ///< by unit: buckets that must have arrived before it is used

  Cost small;  ///< of an exchange of a few numbers
};

/// Refuses (bad_input) a step whose simulation would take minutes, because each of its events is simulated. ranks: of the
/// run, for the error text.
void check_effort(const zero::AccumulationPlan& accumulation, std::size_t events_of_a_micro_step, int ranks);

/// The messages of a group of accumulation.ranks ranks, of the parts options.parts; all groups of the run send the same at
/// the same time.
StepMessages step_messages(const zero::EngineOptions& options, const std::vector<model::UnitLayout>& units,
                           const std::vector<zero::ShardLayout>& layouts, const zero::AccumulationPlan& accumulation,
                           const CollectiveCosts& collectives, const Cluster& cluster);

}  // namespace shoal::plan
