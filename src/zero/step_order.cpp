// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/step_order.hpp"

namespace shoal::zero {

StepUses uses_of_step(const model::ModelOptions& options, const model::Capacity& capacity,
                      const std::vector<model::Part>& parts, const StepOrder& passes) {
  std::vector<model::UseOrders> orders;
  for (const model::Part& part : parts) {
    model::Capacity of_part = capacity;
    of_part.part = part;
    orders.push_back(model::use_orders(options, of_part));
  }
  StepUses uses;
  for (const PassOfPart& pass : passes) {
    const model::UseOrders& own = orders.at(pass.part);
    const UseOrder& order = !pass.backward ? own.forward : pass.whole ? own.backward : own.recomputing_backward;
    uses.begin.push_back(uses.order.size());
    uses.order.insert(uses.order.end(), order.begin(), order.end());
  }
  uses.begin.push_back(uses.order.size());
  return uses;
}

}  // namespace shoal::zero
