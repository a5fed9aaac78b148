// SPDX-License-Identifier: Apache-2.0
// What a rank with a zero::Engine does in a step, in order, as data: the uses of units that it computes, the update, and the
// messages of its group, with their starts and the waits for them.
//
// The order of uses is the model's (model::use_orders(), gradient_order.hpp). What happens between them follows from the
// same functions that an engine executes: Parameters the calls of a GatherPlan and of a MessageSeries, Gradients those of a
// ReductionOrder and of a MessageSeries. `shoal plan` prices these items; tests/zero/scheduled_run_test.cpp compares them
// with what the ranks of a run start.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shoal/model/unit.hpp"
#include "shoal/zero/buckets.hpp"
#include "shoal/zero/end_of_step.hpp"
#include "shoal/zero/engine_options.hpp"
#include "shoal/zero/step_items.hpp"

namespace shoal::zero {

/// The kind of uses of which such a pass consists.
StepItem::Pass kind_of(const PassOfPart& pass);

/// The items of the calls of an engine. They depend on what was called before, as those of an engine do: a schedule begins
/// with an engine that is not waiting for anything.
///
/// With comm.collectives = native the sums of stage 0 may be on all ranks at once; the schedule has their gather in any
/// case.
class StepSchedule {
 public:
  /// options: of training. ranks: of the group. All ranks of the group do the same.
  StepSchedule(const EngineOptions& options, int ranks);
  ~StepSchedule();
  StepSchedule(StepSchedule&&) noexcept;
  StepSchedule& operator=(StepSchedule&&) noexcept;

  /// Engine::forward() and backward() of a part for its next turn. whole: its slot keeps all activations. They follow
  /// EngineOptions::order, if that has passes.
  StepItems forward(std::size_t part, bool whole = true) { return pass({part, false, whole}); }
  StepItems backward(std::size_t part, bool whole = true) { return pass({part, true, whole}); }
  StepItems pass(const PassOfPart& pass);

  /// What follows the last backward pass: the calls of zero::end_of_step.
  StepItems end_of_step();
  /// Ends the gather of parameters before, and starts the next one. The same as rebuild_parameters().
  StepItems publish() { return items_of(EndCall::publish); }
  /// Waits for the gather of parameters.
  StepItems wait_for_parameters();

  const std::vector<model::UnitLayout>& units() const;
  const std::vector<ShardLayout>& layouts() const;
  const AccumulationPlan& accumulation() const;
  const std::vector<Bucket>& reduced() const;
  const std::vector<Bucket>& gathered_gradients() const;
  const std::vector<Bucket>& published() const;
  /// The uses of a pass, which may be empty: one that no slot of the part makes.
  const model::UseOrder& uses(std::size_t part, StepItem::Pass pass) const;
  std::size_t parts() const;
  /// False: other stages of a pipeline have some units, and exchange losses and sums for the norm with the group.
  bool has_all_units() const;

 private:
  StepItems items_of(EndCall call);

  struct Members;
  std::unique_ptr<Members> members_;
};

}  // namespace shoal::zero
