// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/passes.hpp"

namespace shoal::zero {

Passes passes_of(const model::ModelOptions& options, const model::Capacity& capacity,
                 const std::vector<model::Part>& parts) {
  Passes passes;
  const auto add = [&](const model::UseOrder& order) {
    passes.orders.push_back(order);
    return passes.orders.size() - 1;
  };
  for (const model::Part& part : parts) {
    model::Capacity of_part = capacity;
    of_part.part = part;
    const model::UseOrders orders = model::use_orders(options, of_part);
    PassesOfPart& made = passes.of_part.emplace_back();
    made.evaluation = made.forward = add(orders.forward);
    if (!capacity.training) continue;
    if (parts.size() == 1 && part.slots == 1) {
      made.forward = add(model::use_order(options, of_part));
      continue;
    }
    if (part.whole_slots > 0) made.backward = add(orders.backward);
    if (part.whole_slots < part.slots) made.recomputing_backward = add(orders.recomputing_backward);
  }
  return passes;
}

}  // namespace shoal::zero
