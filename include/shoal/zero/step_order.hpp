// SPDX-License-Identifier: Apache-2.0
// The forward and backward passes that a rank makes in a training step, in their order. The list of a schedule
// (pipeline/schedule.hpp) is known before the first step, and with it the order in which all of them use units. So stage 3
// plans its gathers over the whole step: the first units of a pass are gathered while the pass before it computes, and a
// unit that both of them need stays.
#pragma once

#include <cstddef>
#include <vector>

#include "shoal/model/model.hpp"
#include "shoal/model/part.hpp"
#include "shoal/zero/gather_plan.hpp"

namespace shoal::zero {

struct PassOfPart {
  std::size_t part = 0;   ///< index in EngineOptions::parts
  bool backward = false;  ///< the backward pass of a turn; otherwise its forward pass
  bool whole = true;      ///< the turn keeps all activations (model::Part::whole_slots)
  bool operator==(const PassOfPart&) const = default;
};
using StepOrder = std::vector<PassOfPart>;

/// The uses of all passes of a step, one pass after another.
struct StepUses {
  UseOrder order;
  std::vector<std::size_t> begin;  ///< by pass: the index of its first use in `order`; then the number of all uses
};
/// capacity: that of the engine; its part does not matter.
StepUses uses_of_step(const model::ModelOptions& options, const model::Capacity& capacity,
                      const std::vector<model::Part>& parts, const StepOrder& passes);

}  // namespace shoal::zero
