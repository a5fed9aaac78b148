// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/step_schedule.hpp"

#include <algorithm>
#include <utility>

#include "accumulators.hpp"

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

/// Appends items to a list.
class StepSchedule::Writer {
 public:
  using Kind = StepItem::Kind;

  void add(Call::Kind kind, MessageKind message, std::size_t number) {
    items_.push_back({.kind = kind == Call::Kind::start ? Kind::start : Kind::wait, .message = message, .number = number});
  }
  void gather(Call::Kind kind, std::size_t unit, bool near) {
    add(kind, MessageKind::gather, unit);
    items_.back().near = near && kind == Call::Kind::start;
  }
  void add(const Calls& calls, MessageKind message) {
    for (const Call& call : calls) add(call.kind, message, call.message);
  }
  void add(const ReductionCalls& calls) {
    for (const ReductionCall& call : calls) add(call.kind, MessageKind::reduce, call.bucket);
  }
  /// A message that is awaited at once.
  void exchange(MessageKind message) {
    add(Call::Kind::start, message, 0);
    add(Call::Kind::wait, message, 0);
  }
  void compute(std::size_t part, StepItem::Pass pass, std::size_t use) {
    items_.push_back({.kind = Kind::compute, .pass = pass, .part = static_cast<std::uint16_t>(part), .number = use});
  }
  void update() { items_.push_back({.kind = Kind::update}); }

  StepItems take() { return std::move(items_); }

 private:
  StepItems items_;
};

StepSchedule::StepSchedule(const EngineOptions& options, int ranks)
    : units_(model::layout(options.model)),
      layouts_(shard_layouts(units_, options.zero, first_of(ranks), options.parts)),
      accumulation_(accumulation_of(options, ranks)),
      overlap_(options.gradients.overlap),
      has_secondary_(has_secondary(options.zero.hpz_size, ranks)),
      gathers_units_(gathers_units(layouts_)),
      has_all_units_(
          std::all_of(layouts_.begin(), layouts_.end(), [](const ShardLayout& layout) { return layout.elements > 0; })),
      passes_(options.model, options.capacity, parts_of(options), options.order, gathers_units_),
      fresh_(units_.size(), false),
      reduced_(reduced_buckets(options, units_, ranks)),
      gathered_gradients_(gathers_gradients(layouts_, ranks) ? without_copies(reduced_, units_, ranks)
                                                             : std::vector<Bucket>{}),
      reductions_(units_, sweeps_of(options.parts, units_), reduced_, accumulation_, overlap_,
                  buckets_before_writes(units_, sweeps_of(options.parts, units_), reduced_, overlap_, accumulation_)),
      gradient_gather_(gathered_gradients_.size()),
      published_(published_buckets(units_, layouts_, ranks, options.gradients.bucket_elements)),
      publishing_(published_.buckets.size()) {
  for (const UseOrder& order : passes_.take_orders()) {
    gathers_.push_back(plan_gathers(order, units_, layouts_, options.dtype, options.zero, overlap_));
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
    visit_ = 0;
  }
  const StepItem::Pass kind = kind_of(pass);
  const model::UseOrder& uses = this->uses(pass.part, kind);
  const model::GradientOrder& completed = parts_[pass.part].completed[static_cast<std::size_t>(kind)];
  Writer items;
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

void StepSchedule::add_acquisitions(const std::vector<int>& units, Writer& items) {
  if (gathers_units_) {
    const GatherPlan& plan = gathers_[order_];
    for (const Call& call : plan.calls.at(visit_++)) {
      const auto unit = static_cast<std::size_t>(plan.gather_lifetimes[call.message].unit);
      items.gather(call.kind, unit, has_secondary_ && fresh_[unit]);
      fresh_[unit] = true;  // its next gather starts after this one has ended
    }
  }
  for (const int unit : units) {
    items.add(publishing_.wait_for(published_.before_use[static_cast<std::size_t>(unit)]), MessageKind::publish);
  }
}

void StepSchedule::add_completions(const std::vector<int>& units, Writer& items) {
  for (const int unit : units) {
    items.add(reductions_.begin(unit));
    items.add(reductions_.complete(unit));
  }
}

StepItems StepSchedule::finish_gradients() {
  Writer items;
  items.add(reductions_.end_step());
  return items.take();
}

StepItems StepSchedule::start_gradient_gather() {
  Writer items;
  items.add(gradient_gather_.start(), MessageKind::gather_gradients);
  return items.take();
}

StepItems StepSchedule::update() {
  Writer items;
  if (accumulation_.ranks > 1 || !has_all_units_) {
    items.exchange(MessageKind::losses);
    items.exchange(MessageKind::norm);
  }
  items.add(gradient_gather_.wait_for_all(), MessageKind::gather_gradients);
  items.update();
  return items.take();
}

StepItems StepSchedule::end_of_step() {
  StepItems all = finish_gradients();
  for (const StepItems& items : {start_gradient_gather(), update(), publish()}) {
    all.insert(all.end(), items.begin(), items.end());
  }
  return all;
}

StepItems StepSchedule::publish() {
  Writer items;
  items.add(publishing_.wait_for_all(), MessageKind::publish);
  std::fill(fresh_.begin(), fresh_.end(), false);
  items.add(publishing_.start(), MessageKind::publish);
  if (!overlap_ || gathers_units_) items.add(publishing_.wait_for_all(), MessageKind::publish);
  return items.take();
}

StepItems StepSchedule::wait_for_parameters() {
  Writer items;
  items.add(publishing_.wait_for_all(), MessageKind::publish);
  return items.take();
}

}  // namespace shoal::zero
