// SPDX-License-Identifier: Apache-2.0
// What a rank with a zero::Engine does in a step, in order, as data: the uses of units that it computes, the update, and the
// messages of its group, with their starts and the waits for them.
//
// The order of uses is the model's (model::use_orders(), gradient_order.hpp). What happens between them follows from the
// same functions that an engine executes: Parameters the calls of a GatherPlan and of a MessageSeries, Gradients those of a
// ReductionOrder and of a MessageSeries. `shoal plan` prices these items; tests/zero/scheduled_run_test.cpp compares them
// with what the ranks of a run start.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/model/gradient_order.hpp"
#include "shoal/zero/end_of_step.hpp"
#include "shoal/zero/engine.hpp"
#include "shoal/zero/passes.hpp"
#include "shoal/zero/publishing_order.hpp"
#include "shoal/zero/reduction_order.hpp"

namespace shoal::zero {

class ItemWriter;

/// Kinds of messages, and what numbers those of a kind.
enum class MessageKind : std::uint8_t {
  gather,            ///< parameters before their use: the unit
  reduce,            ///< gradients: the bucket of StepSchedule::reduced()
  gather_gradients,  ///< after they are reduced, if every rank updates all units: the bucket of gathered_gradients()
  publish,           ///< updated parameters: the bucket of published()
  losses,            ///< numbers of all micro-batches
  norm,              ///< sums for the gradient's norm
};
inline constexpr std::size_t message_kinds = 6;

struct StepItem {
  enum class Kind : std::uint8_t {
    compute,  ///< a use of units; `number` is its index in the pass. If a use of backward first computes activations again,
              ///< what begins the gradient comes between, but the item is one, after that
    update,   ///< norm and optimizer
    start,    ///< of a message
    wait,     ///< for the oldest message of its kind, which is this one
  };
  enum class Pass : std::uint8_t { forward, backward, recomputing_backward };
  Kind kind = Kind::compute;
  Pass pass = Pass::forward;  ///< compute
  std::uint16_t part = 0;     ///< compute: index in EngineOptions::parts
  MessageKind message = MessageKind::gather;
  bool near = false;  ///< start of a gather: from the second partition (hpZ), not from all ranks
  std::size_t number = 0;
  bool operator==(const StepItem&) const = default;
};
using StepItems = std::vector<StepItem>;

/// The kind of uses of which such a pass consists.
StepItem::Pass kind_of(const PassOfPart& pass);

/// The items of the calls of an engine. They depend on what was called before, as those of an engine do: a schedule begins
/// with an engine that is not waiting for anything.
///
/// With comm.collectives = native the sums of stage 0 may be on all ranks at once; the schedule has their gather in any
/// case.
///
/// What the ends of a pipeline send each other of a tied embedding (copies.hpp) is no message of the group. Gradients
/// are sent after EndCall::finish_gradients, and parameters between wait_for_parameters() and EndCall::publish.
class StepSchedule {
 public:
  /// options: of training. ranks: of the group. All ranks of the group do the same.
  StepSchedule(const EngineOptions& options, int ranks);

  /// Engine::forward() and backward() of a part for its next turn. whole: its slot keeps all activations. They follow
  /// EngineOptions::order, if that has passes.
  StepItems forward(std::size_t part, bool whole = true) { return pass({part, false, whole}); }
  StepItems backward(std::size_t part, bool whole = true) { return pass({part, true, whole}); }
  StepItems pass(const PassOfPart& pass);

  /// What follows the last backward pass, by call and as a whole.
  StepItems items_of(EndCall call);
  StepItems end_of_step();
  /// Starts the gather of parameters, after the one before. The same as rebuild_parameters().
  StepItems publish() { return items_of(EndCall::publish); }
  /// Waits for the gather of parameters.
  StepItems wait_for_parameters();

  const std::vector<model::UnitLayout>& units() const { return units_; }
  const std::vector<ShardLayout>& layouts() const { return layouts_; }
  const AccumulationPlan& accumulation() const { return accumulation_; }
  const std::vector<Bucket>& reduced() const { return reduced_; }
  const std::vector<Bucket>& gathered_gradients() const { return gathered_gradients_; }
  const std::vector<Bucket>& published() const { return publishing_.buckets(); }
  /// The uses of a pass, which may be empty: one that no slot of the part makes.
  const model::UseOrder& uses(std::size_t part, StepItem::Pass pass) const;
  std::size_t parts() const { return parts_.size(); }
  /// False: other stages of a pipeline have some units, and exchange losses and sums for the norm with the group.
  bool has_all_units() const { return has_all_units_; }

 private:
  /// By StepItem::Pass.
  struct PartOfModel {
    std::array<model::UseOrder, 3> uses;
    std::array<model::GradientOrder, 3> completed;
  };

  void add_acquisitions(const std::vector<int>& units, ItemWriter& items);
  void add_completions(const std::vector<int>& units, ItemWriter& items);

  std::vector<model::UnitLayout> units_;
  std::vector<ShardLayout> layouts_;
  AccumulationPlan accumulation_;
  bool has_secondary_, gathers_units_, has_all_units_;
  std::vector<PartOfModel> parts_;
  Passes passes_;

  std::vector<GatherPlan> gathers_;       // by order of uses
  std::size_t order_ = 0, next_use_ = 0;  // the current order of uses, and the next one of these
  std::vector<bool> fresh_;               // by unit: its second partition is valid (Secondary)

  std::vector<Bucket> reduced_, gathered_gradients_;
  ReductionOrder reductions_;
  MessageSeries gradient_gather_;
  PublishingOrder publishing_;
};

}  // namespace shoal::zero
