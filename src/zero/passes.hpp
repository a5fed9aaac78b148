// SPDX-License-Identifier: Apache-2.0
// The passes that a rank makes through the parts of the model that it computes, and the orders of uses for which gathers are
// planned (gather_plan.hpp). That may be the order of a single pass of a part. Or it is the order of a whole step, if its
// forward and backward passes are known before the first step, as those of a schedule are (pipeline/schedule.hpp). Then
// stage 3 gathers the first units of a pass while the pass before it computes, and a unit that both of them need stays.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "shoal/model/model.hpp"
#include "shoal/model/part.hpp"
#include "shoal/zero/engine_options.hpp"
#include "zero/gather_plan.hpp"

namespace shoal::zero {

/// The uses of all passes of a step, one pass after another.
struct StepUses {
  UseOrder order;
  std::vector<std::size_t> begin;  ///< by pass: the index of its first use in `order`; then the number of all uses
};
/// capacity: that of the engine; its part does not matter.
StepUses uses_of_step(const model::ModelOptions& options, const model::Capacity& capacity,
                      const std::vector<model::Part>& parts, const StepOrder& order);

/// Which orders of uses a rank goes through, and when it begins which of them.
class Passes {
 public:
  /// order: of a step; empty: it is not known. gathers: some units are gathered before their use; otherwise an order of a
  /// step is not needed, and empty. capacity: without a part.
  Passes(const model::ModelOptions& options, const model::Capacity& capacity, const std::vector<model::Part>& parts,
         const StepOrder& order, bool gathers);

  /// All orders of uses, for which gathers are planned. They are long if one is that of a step, and not kept.
  std::vector<UseOrder> take_orders() { return std::move(orders_); }
  /// The index of the order of an evaluation of a part.
  std::size_t evaluation(std::size_t part) const { return of_part_.at(part).evaluation; }
  /// To be called at every pass of a training step. Returns the index of the order that begins with it; nothing if the pass
  /// continues the one that has begun before. fail() if another pass comes next in the order of a step.
  std::optional<std::size_t> begin(const PassOfPart& pass);
  /// Returns true if the order of a step is not known, or none of its passes has begun, or all.
  bool between_steps() const { return next_ == 0; }

 private:
  /// Indices of orders.
  struct OfPart {
    std::size_t evaluation = 0, forward = 0;
    /// Of a slot that keeps all activations, and of one that does not. None: there is no such slot, or the backward pass
    /// continues the order of forward, which it follows at once.
    std::optional<std::size_t> backward = {}, recomputing_backward = {};
  };
  std::size_t add(const UseOrder& order);

  StepOrder step_order_;
  std::vector<UseOrder> orders_;
  std::vector<OfPart> of_part_;
  std::size_t step_ = 0;  // index of the order of a step, if it is known
  std::size_t next_ = 0;  // index of the next pass in step_order_
};

}  // namespace shoal::zero
