// SPDX-License-Identifier: Apache-2.0
#include "zero/passes.hpp"

#include "shoal/base/error.hpp"

namespace shoal::zero {

namespace {

model::UseOrders orders_of_part(const model::ModelOptions& options, model::Capacity capacity, const model::Part& part) {
  capacity.part = part;
  return model::use_orders(options, capacity);
}

}  // namespace

StepUses uses_of_step(const model::ModelOptions& options, const model::Capacity& capacity,
                      const std::vector<model::Part>& parts, const StepOrder& order) {
  std::vector<model::UseOrders> orders;
  orders.reserve(parts.size());
  for (const model::Part& part : parts) orders.push_back(orders_of_part(options, capacity, part));
  StepUses uses;
  for (const PassOfPart& pass : order) {
    const model::UseOrders& own = orders.at(pass.part);
    const UseOrder& of_pass = !pass.backward ? own.forward : pass.whole ? own.backward : own.recomputing_backward;
    uses.begin.push_back(uses.order.size());
    uses.order.insert(uses.order.end(), of_pass.begin(), of_pass.end());
  }
  uses.begin.push_back(uses.order.size());
  return uses;
}

/// In one part with one slot, each backward pass follows its forward pass at once. Then both have one order: the first units
/// of backward are gathered during forward, and those that both need stay.
Passes::Passes(const model::ModelOptions& options, const model::Capacity& capacity, const std::vector<model::Part>& parts,
               const StepOrder& order, bool gathers)
    : step_order_(order) {
  for (const model::Part& part : parts) {
    const model::UseOrders orders = orders_of_part(options, capacity, part);
    OfPart& made = of_part_.emplace_back();
    made.evaluation = made.forward = add(orders.forward);
    if (!capacity.training || !order.empty()) continue;
    if (parts.size() == 1 && part.slots == 1) {
      model::Capacity of_part = capacity;
      of_part.part = part;
      made.forward = add(model::use_order(options, of_part));
      continue;
    }
    if (part.whole_slots > 0) made.backward = add(orders.backward);
    if (part.whole_slots < part.slots) made.recomputing_backward = add(orders.recomputing_backward);
  }
  if (!order.empty()) step_ = add(gathers ? uses_of_step(options, capacity, parts, order).order : UseOrder{});
}

std::size_t Passes::add(const UseOrder& order) {
  orders_.push_back(order);
  return orders_.size() - 1;
}

std::optional<std::size_t> Passes::begin(const PassOfPart& pass) {
  if (step_order_.empty()) {
    const OfPart& own = of_part_.at(pass.part);
    if (!pass.backward) return own.forward;
    return pass.whole ? own.backward : own.recomputing_backward;
  }
  require(step_order_[next_] == pass, "pass ", next_, " of the step is that of another part, or of another kind");
  const bool is_first = next_ == 0;
  next_ = (next_ + 1) % step_order_.size();
  return is_first ? std::optional(step_) : std::nullopt;
}

}  // namespace shoal::zero
