// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/step_schedule.hpp"

#include <algorithm>
#include <utility>

#include "accumulators.hpp"
#include "item_writer.hpp"

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

}  // namespace

StepItem::Pass kind_of(const PassOfPart& pass) {
  if (!pass.backward) return StepItem::Pass::forward;
  return pass.whole ? StepItem::Pass::backward : StepItem::Pass::recomputing_backward;
}

StepSchedule::StepSchedule(const EngineOptions& options, int ranks)
    : units_(model::layout(options.model)),
      layouts_(shard_layouts(units_, options.zero, first_of(ranks), options.parts)),
      accumulation_(accumulation_of(options, ranks)),
      has_secondary_(has_secondary(options.zero.hpz_size, ranks)),
      gathers_units_(gathers_units(layouts_)),
      has_all_units_(
          std::all_of(layouts_.begin(), layouts_.end(), [](const ShardLayout& layout) { return layout.elements > 0; })),
      passes_(options.model, options.capacity, parts_of(options), options.order, gathers_units_),
      fresh_(units_.size(), false),
      reduced_(reduced_buckets(options, units_, ranks)),
      gathered_gradients_(gathers_gradients(layouts_, ranks) ? without_copies(reduced_, units_, ranks)
                                                             : std::vector<Bucket>{}),
      reductions_(units_, sweeps_of(options.parts, units_), reduced_, accumulation_, options.gradients.overlap,
                  buckets_before_writes(units_, sweeps_of(options.parts, units_), reduced_, options.gradients.overlap,
                                        accumulation_)),
      gradient_gather_(gathered_gradients_.size()),
      publishing_(published_buckets(units_, layouts_, ranks, options.gradients.bucket_elements),
                  options.gradients.overlap && !gathers_units_) {
  for (const UseOrder& order : passes_.take_orders()) {
    gathers_.push_back(plan_gathers(order, units_, layouts_, options.dtype, options.zero, options.gradients.overlap));
  }
  for (const model::Part& part : parts_of(options)) {
    model::Capacity capacity = options.capacity;
    capacity.part = part;
    model::UseOrders orders = model::use_orders(options.model, capacity);
    PartOfModel& made = parts_.emplace_back();
    made.completed = {model::gradients_of_forward(orders.forward, units_, part),
                      model::gradients_of_backward(orders.backward, part),
                      model::gradients_of_backward(orders.recomputing_backward, part)};
    made.uses = {std::move(orders.forward), std::move(orders.backward), std::move(orders.recomputing_backward)};
  }
}

const model::UseOrder& StepSchedule::uses(std::size_t part, StepItem::Pass pass) const {
  return parts_.at(part).uses.at(static_cast<std::size_t>(pass));
}

/// In each use, the model acquires its units, asks for the gradients that it completes, and completes them one by one. Early
/// gradients are asked for in the head's use, which is the one in a forward pass that completes gradients.
StepItems StepSchedule::pass(const PassOfPart& pass) {
  if (const auto order = passes_.begin(pass)) {
    order_ = *order;
    next_use_ = 0;
  }
  const StepItem::Pass kind = kind_of(pass);
  const model::UseOrder& uses = this->uses(pass.part, kind);
  const model::GradientOrder& completed = parts_[pass.part].completed[static_cast<std::size_t>(kind)];
  ItemWriter items;
  for (std::size_t use = 0; use < uses.size(); ++use) {
    add_acquisitions(uses[use], items);
    if (!pass.backward && !completed[use].empty()) {
      for (const int unit : uses[use]) {
        if (units_[static_cast<std::size_t>(unit)].early_gradient) items.add(reductions_.begin(unit));
      }
    }
    if (!completed[use].empty()) items.add(reductions_.begin(completed[use].front()));
    items.compute(pass.part, kind, use);
    add_completions(completed[use], items);
  }
  add_completions(completed.back(), items);
  return items.take();
}

void StepSchedule::add_acquisitions(const std::vector<int>& units, ItemWriter& items) {
  if (gathers_units_) {
    const GatherPlan& plan = gathers_[order_];
    for (const Call& call : plan.calls.at(next_use_++)) {
      const auto unit = static_cast<std::size_t>(plan.gather_lifetimes[call.message].unit);
      items.gather(call.kind, unit, has_secondary_ && fresh_[unit]);
      fresh_[unit] = true;  // its next gather starts after this one has ended
    }
  }
  for (const int unit : units) {
    items.add(publishing_.before_use(unit), MessageKind::publish);
  }
}

void StepSchedule::add_completions(const std::vector<int>& units, ItemWriter& items) {
  for (const int unit : units) {
    items.add(reductions_.begin(unit));
    items.add(reductions_.complete(unit));
  }
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
  const bool exchanges = accumulation_.ranks > 1 || !has_all_units_;
  ItemWriter items;
  switch (call) {
    case EndCall::finish_gradients: items.add(reductions_.end_step()); break;
    case EndCall::start_gradient_gather: items.add(gradient_gather_.start(), MessageKind::gather_gradients); break;
    case EndCall::exchange_losses:
      if (exchanges) items.exchange(MessageKind::losses);
      break;
    case EndCall::exchange_norm:
      if (exchanges) items.exchange(MessageKind::norm);
      break;
    case EndCall::update:
      items.add(gradient_gather_.wait_for_all(), MessageKind::gather_gradients);
      items.update();
      break;
    case EndCall::publish:
      std::fill(fresh_.begin(), fresh_.end(), false);
      items.add(publishing_.restart(), MessageKind::publish);
      break;
  }
  return items.take();
}

StepItems StepSchedule::wait_for_parameters() {
  ItemWriter items;
  items.add(publishing_.wait_for_all(), MessageKind::publish);
  return items.take();
}

}  // namespace shoal::zero
