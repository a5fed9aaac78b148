// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/step_schedule.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "accumulators.hpp"
#include "item_writer.hpp"
#include "shoal/model/gradient_order.hpp"
#include "zero/gather_plan.hpp"
#include "zero/passes.hpp"
#include "zero/publishing_order.hpp"
#include "zero/reduction_order.hpp"

namespace shoal::zero {

namespace {

RankGroups first_of(int ranks) {
  RankGroups groups;
  groups.ranks = ranks;
  return groups;
}

/// A rank alone sends nothing.
std::vector<Bucket> reduced_buckets(const EngineOptions& options, const std::vector<model::UnitLayout>& units, int ranks) {
  if (ranks == 1) return {};
  return buckets_of_sweeps(units, sweeps_of(options.parts, units), ranks, options.gradients.bucket_elements);
}

bool any_crosses_stages(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (crosses_stages(units, layouts, u)) return true;
  }
  return false;
}

}  // namespace

StepItem::Pass kind_of(const PassOfPart& pass) {
  if (!pass.backward) return StepItem::Pass::forward;
  return pass.whole ? StepItem::Pass::backward : StepItem::Pass::recomputing_backward;
}

struct StepSchedule::Members {
  Members(const EngineOptions& options, int ranks);

  void add_acquisitions(const std::vector<int>& of_use, ItemWriter& items);
  void add_completions(const std::vector<int>& completed, ItemWriter& items);

  /// By StepItem::Pass.
  struct PartOfModel {
    std::array<model::UseOrder, 3> uses;
    std::array<model::GradientOrder, 3> completed;
  };

  std::vector<model::UnitLayout> units;
  std::vector<ShardLayout> layouts;
  AccumulationPlan accumulation;
  bool has_secondary, gathers_units, has_all_units, exchanges_copies;
  std::vector<PartOfModel> parts;
  Passes passes;

  std::vector<GatherPlan> gathers;      // by order of uses
  std::size_t order = 0, next_use = 0;  // the current order of uses, and the next one of these
  std::vector<bool> fresh;              // by unit: its second partition is valid (Secondary)

  std::vector<Bucket> reduced, gathered_gradients;
  ReductionOrder reductions;
  MessageSeries gradient_gather;
  PublishingOrder publishing;
};

StepSchedule::Members::Members(const EngineOptions& options, int ranks)
    : units(model::layout(options.model)),
      layouts(shard_layouts(units, options.zero, first_of(ranks), options.parts)),
      accumulation(accumulation_of(options, ranks)),
      has_secondary(zero::has_secondary(options.zero.hpz_size, ranks)),
      gathers_units(zero::gathers_units(layouts)),
      has_all_units(
          std::all_of(layouts.begin(), layouts.end(), [](const ShardLayout& layout) { return layout.elements > 0; })),
      exchanges_copies(any_crosses_stages(units, layouts)),
      passes(options.model, options.capacity, parts_of(options), options.order, gathers_units),
      fresh(units.size(), false),
      reduced(reduced_buckets(options, units, ranks)),
      gathered_gradients(gathers_gradients(layouts, ranks) ? without_copies(reduced, units, ranks) : std::vector<Bucket>{}),
      reductions(
          units, sweeps_of(options.parts, units), reduced, accumulation, options.gradients.overlap,
          buckets_before_writes(units, sweeps_of(options.parts, units), reduced, options.gradients.overlap, accumulation)),
      gradient_gather(gathered_gradients.size()),
      publishing(published_buckets(units, layouts, ranks, options.gradients.bucket_elements),
                 options.gradients.overlap && !gathers_units) {
  for (const UseOrder& uses : passes.take_orders()) {
    gathers.push_back(plan_gathers(uses, units, layouts, options.dtype, options.zero, options.gradients.overlap));
  }
  for (const model::Part& part : parts_of(options)) {
    model::Capacity capacity = options.capacity;
    capacity.part = part;
    model::UseOrders orders = model::use_orders(options.model, capacity);
    PartOfModel& made = parts.emplace_back();
    made.completed = {model::gradients_of_forward(orders.forward, units, part),
                      model::gradients_of_backward(orders.backward, part),
                      model::gradients_of_backward(orders.recomputing_backward, part)};
    made.uses = {std::move(orders.forward), std::move(orders.backward), std::move(orders.recomputing_backward)};
  }
}

void StepSchedule::Members::add_acquisitions(const std::vector<int>& of_use, ItemWriter& items) {
  if (gathers_units) {
    const GatherPlan& plan = gathers[order];
    for (const Call& call : plan.calls.at(next_use++)) {
      const auto unit = static_cast<std::size_t>(plan.gather_lifetimes[call.message].unit);
      items.gather(call.kind, unit, has_secondary && fresh[unit]);
      fresh[unit] = true;  // its next gather starts after this one has ended
    }
  }
  for (const int unit : of_use) {
    items.add(publishing.before_use(unit), MessageKind::publish);
  }
}

void StepSchedule::Members::add_completions(const std::vector<int>& completed, ItemWriter& items) {
  for (const int unit : completed) {
    items.add(reductions.begin(unit));
    items.add(reductions.complete(unit));
  }
}

StepSchedule::StepSchedule(const EngineOptions& options, int ranks) : members_(std::make_unique<Members>(options, ranks)) {}
StepSchedule::~StepSchedule() = default;
StepSchedule::StepSchedule(StepSchedule&&) noexcept = default;
StepSchedule& StepSchedule::operator=(StepSchedule&&) noexcept = default;

const std::vector<model::UnitLayout>& StepSchedule::units() const { return members_->units; }
const std::vector<ShardLayout>& StepSchedule::layouts() const { return members_->layouts; }
const AccumulationPlan& StepSchedule::accumulation() const { return members_->accumulation; }
const std::vector<Bucket>& StepSchedule::reduced() const { return members_->reduced; }
const std::vector<Bucket>& StepSchedule::gathered_gradients() const { return members_->gathered_gradients; }
const std::vector<Bucket>& StepSchedule::published() const { return members_->publishing.buckets(); }
std::size_t StepSchedule::parts() const { return members_->parts.size(); }
bool StepSchedule::has_all_units() const { return members_->has_all_units; }

const model::UseOrder& StepSchedule::uses(std::size_t part, StepItem::Pass pass) const {
  return members_->parts.at(part).uses.at(static_cast<std::size_t>(pass));
}

/// In each use, the model acquires its units, asks for the gradients that it completes, and completes them one by one. Early
/// gradients are asked for in the head's use, which is the one in a forward pass that completes gradients.
StepItems StepSchedule::pass(const PassOfPart& pass) {
  if (const auto order = members_->passes.begin(pass)) {
    members_->order = *order;
    members_->next_use = 0;
  }
  const StepItem::Pass kind = kind_of(pass);
  const model::UseOrder& uses = this->uses(pass.part, kind);
  const model::GradientOrder& completed = members_->parts[pass.part].completed[static_cast<std::size_t>(kind)];
  ItemWriter items;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    members_->add_acquisitions(uses[use], items);
    if (!pass.backward && !completed[use].empty()) {
      for (const int unit : uses[use]) {
        if (members_->units[static_cast<std::size_t>(unit)].early_gradient) items.add(members_->reductions.begin(unit));
      }
    }
    if (!completed[use].empty()) items.add(members_->reductions.begin(completed[use].front()));
    items.compute(pass.part, kind, use);
    members_->add_completions(completed[use], items);
  }
  members_->add_completions(completed.back(), items);
  return items.take();
}

StepItems StepSchedule::end_of_step() {
  StepItems all;
  for (const EndCall call : zero::end_of_step) {
    const StepItems items = items_of(call);
    all.insert(all.end(), items.begin(), items.end());
  }
  return all;
}

StepItems StepSchedule::items_of(EndCall call) {
  const bool exchanges = members_->accumulation.ranks > 1 || !members_->has_all_units;
  ItemWriter items;
  switch (call) {
    case EndCall::finish_gradients:
      items.add(members_->reductions.end_step());
      if (members_->exchanges_copies) items.exchange_copies(MessageKind::copied_gradients);
      break;
    case EndCall::start_gradient_gather: items.add(members_->gradient_gather.start(), MessageKind::gather_gradients); break;
    case EndCall::exchange_losses:
      if (exchanges) items.exchange(MessageKind::losses);
      break;
    case EndCall::exchange_norm:
      if (exchanges) items.exchange(MessageKind::norm);
      break;
    case EndCall::update:
      items.add(members_->gradient_gather.wait_for_all(), MessageKind::gather_gradients);
      items.update();
      break;
    case EndCall::publish:
      items.add(members_->publishing.wait_for_all(), MessageKind::publish);  // of the step before
      if (members_->exchanges_copies) items.exchange_copies(MessageKind::copied_parameters);
      std::fill(members_->fresh.begin(), members_->fresh.end(), false);
      items.add(members_->publishing.restart(), MessageKind::publish);
      break;
  }
  return items.take();
}

StepItems StepSchedule::wait_for_parameters() {
  ItemWriter items;
  items.add(members_->publishing.wait_for_all(), MessageKind::publish);
  return items.take();
}

}  // namespace shoal::zero
