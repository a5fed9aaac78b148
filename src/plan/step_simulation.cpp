// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/step_simulation.hpp"

#include <algorithm>

#include "shoal/model/costs.hpp"

namespace shoal::plan {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

zero::RankGroups groups_of(int ranks) {
  zero::RankGroups groups;
  groups.ranks = ranks;
  return groups;
}

bool every_micro_step(const zero::EngineOptions& options, int ranks) {
  return ranks > 1 && zero::stage_of(options.zero).shards_gradients;
}

}  // namespace

StepSimulation::StepSimulation(const zero::EngineOptions& options, int sync_group_size, const CollectiveCosts& collectives,
                               const Cluster& cluster, const Arithmetic& arithmetic, Timeline& timeline)
    : arithmetic_(arithmetic),
      time_(&timeline),
      accumulation_(options.micro_batches, sync_group_size, every_micro_step(options, sync_group_size),
                    options.gradients.collectives == comm::Collectives::native),
      overlap_(options.gradients.overlap) {
  const std::vector<model::UnitLayout> units = model::layout(options.model);
  layouts_ = zero::shard_layouts(units, options.zero, groups_of(sync_group_size));
  hpz_valid_.assign(units.size(), false);
  complete_.assign(units.size(), false);
  plan_uses(options, units);
  check_effort(accumulation_, uses_.size(), cluster.ranks());
  messages_ = step_messages(options, units, layouts_, accumulation_, collectives, cluster);
  const auto& lifetimes = messages_.gathers.gather_lifetimes;
  for (std::size_t k = 0; k < lifetimes.size(); ++k) uses_[lifetimes[k].start].starting.push_back(k);
}

/// Time model: a use takes time in proportion to its operations (model::costs()). The first use of a unit is its forward
/// pass, the last one its backward pass, and those between compute its activations again. A unit whose backward pass follows
/// its forward pass at once (the head) makes both in its only use. Backward goes through the units in reverse order, so a
/// gradient is complete in the unit's last use, or with the gradient of the unit after it if that is later: the embedding's
/// needs no parameters, and is complete at the end of the pass.
void StepSimulation::plan_uses(const zero::EngineOptions& options, const std::vector<model::UnitLayout>& units) {
  const zero::UseOrder order = model::use_order(options.model, options.capacity);
  const std::vector<model::UnitCost> costs = model::costs(options.model, options.dtype, options.capacity);
  std::vector<std::size_t> first(units.size(), order.size()), last(units.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const int unit : order[i]) {
      first[at(unit)] = std::min(first[at(unit)], i);
      last[at(unit)] = i;
    }
  }
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Use& use = uses_.emplace_back();
    use.units = order[i];
    for (const int unit : order[i]) {
      const model::UnitCost& cost = costs[at(unit)];
      const bool at_once = last[at(unit)] == first[at(unit)];
      if (i == first[at(unit)]) {
        use.fraction += at_once ? cost.flops() : cost.forward_flops;
      } else {
        use.fraction += i == last[at(unit)] ? cost.backward_flops : cost.forward_flops;
      }
    }
    sum += use.fraction;
  }
  std::size_t complete = 0;
  for (std::size_t unit = units.size(); unit-- > 0;) {
    complete = std::max(complete, last[unit]);
    uses_[complete].completed.push_back(static_cast<int>(unit));
  }
  for (Use& use : uses_) use.fraction /= sum;
}

void StepSimulation::step() {
  for (std::size_t round = 0; round < accumulation_.rounds; ++round) {
    for (std::size_t m = 0; m < accumulation_.micro_steps_per_round; ++m) {
      micro_step(m + 1 == accumulation_.micro_steps_per_round);
    }
  }
  finish_all_reduces();
  if (accumulation_.ranks > 1) {
    time_->run(OperationKind::all_gather, messages_.small);  // the losses
    time_->run(OperationKind::all_gather, messages_.small);  // the norm
    gather_gradients();
  }
  time_->work(arithmetic_.update_s);
  std::fill(hpz_valid_.begin(), hpz_valid_.end(), false);
  start_all_gather();
}

void StepSimulation::micro_step(bool is_last) {
  const double seconds =
      arithmetic_.micro_batches_s / static_cast<double>(accumulation_.rounds * accumulation_.micro_steps_per_round);
  std::fill(complete_.begin(), complete_.end(), false);
  first_gradient_ = true;
  for (std::size_t u = 0; u < uses_.size(); ++u) {
    for (const std::size_t lifetime : uses_[u].starting) start_gather(lifetime);
    for (const int unit : uses_[u].units) acquire(unit, u);
    for (const int unit : uses_[u].completed) wait_for_gradient_memory(unit);
    time_->work(uses_[u].fraction * seconds);
    for (const int unit : uses_[u].completed) complete(unit, is_last);
  }
}

void StepSimulation::start_gather(std::size_t lifetime) {
  if (gathering_.size() == most_in_flight) finish_gather();
  const std::size_t unit = at(messages_.gathers.gather_lifetimes[lifetime].unit);
  const bool within_hpz = hpz_valid_[unit] && messages_.gather_hpz[unit] != nullptr;
  hpz_valid_[unit] = true;
  const Cost& cost = within_hpz ? *messages_.gather_hpz[unit] : *messages_.gather[unit];
  gathering_.emplace_back(lifetime, time_->start(OperationKind::all_gather, cost));
}

void StepSimulation::finish_gather() {
  time_->wait(gathering_.front().second);
  gathering_.pop_front();
}

void StepSimulation::acquire(int unit, std::size_t use) {
  if (!layouts_[at(unit)].gathered) return wait_for_gathered(messages_.gathered_before_use[at(unit)]);
  const auto is_needed = [&](const auto& gather) {
    const zero::GatherLifetime& lifetime = messages_.gathers.gather_lifetimes[gather.first];
    return lifetime.unit == unit && lifetime.first <= use && use <= lifetime.last;
  };
  while (std::any_of(gathering_.begin(), gathering_.end(), is_needed)) finish_gather();
}

/// Waits for the buckets that still read from the memory to which the unit's gradient will be written: all those of earlier
/// micro-batches, and some of this one.
void StepSimulation::wait_for_gradient_memory(int unit) {
  if (std::exchange(first_gradient_, false)) finish_all_reduces();
  finish_reduces(messages_.reduced_before_write[at(unit)]);
}

/// is_last: in the last micro-step of the round.
void StepSimulation::complete(int unit, bool is_last) {
  complete_[at(unit)] = true;
  if (!accumulation_.reduced_every_micro_step && !is_last) return;
  while (reduces_ready_ < messages_.reduce.size() && complete_[at(messages_.buckets[reduces_ready_].last_unit)]) {
    ++reduces_ready_;
  }
  if (!accumulation_.reduced_every_micro_step && !overlap_) return;  // they start between micro-batches
  start_ready_reduces();
  if (!overlap_) finish_reduces(reduces_started_);
}

void StepSimulation::start_ready_reduces() {
  while (reduces_started_ < reduces_ready_) start_reduce();
}

void StepSimulation::start_reduce() {
  if (reducing_.size() == most_in_flight) finish_reduces(reduces_finished_ + 1);
  reducing_.push_back(time_->start(OperationKind::reduce_scatter, *messages_.reduce[reduces_started_++]));
}

void StepSimulation::finish_reduces(std::size_t buckets) {
  for (; reduces_finished_ < buckets; ++reduces_finished_) {
    time_->wait(reducing_.front());
    reducing_.pop_front();
  }
}

void StepSimulation::finish_all_reduces() {
  start_ready_reduces();
  finish_reduces(reduces_started_);
  reduces_ready_ = reduces_started_ = reduces_finished_ = 0;
}

/// In stage 0 every rank updates all parameters, so the summed gradients are gathered.
void StepSimulation::gather_gradients() {
  std::deque<Timeline::Pending> gathering;
  for (const SharedCost& cost : messages_.gather_gradients) {
    if (gathering.size() == most_in_flight) {
      time_->wait(gathering.front());
      gathering.pop_front();
    }
    gathering.push_back(time_->start(OperationKind::all_gather, *cost));
  }
  for (const Timeline::Pending& pending : gathering) time_->wait(pending);
}

void StepSimulation::start_all_gather() {
  wait_for_parameters();
  all_gathers_started_ = all_gathers_finished_ = 0;
  while (all_gathers_started_ < std::min(most_in_flight, messages_.gather_parameters.size())) start_next_all_gather();
  if (!overlap_ || !messages_.gathers.gather_lifetimes.empty()) wait_for_parameters();
}

void StepSimulation::start_next_all_gather() {
  all_gathers_.push_back(time_->start(OperationKind::all_gather, *messages_.gather_parameters[all_gathers_started_++]));
}

void StepSimulation::wait_for_parameters() { wait_for_gathered(messages_.gather_parameters.size()); }

void StepSimulation::wait_for_gathered(std::size_t buckets) {
  if (all_gathers_started_ == 0) return;  // there was no update yet
  for (; all_gathers_finished_ < buckets; ++all_gathers_finished_) {
    time_->wait(all_gathers_.front());
    all_gathers_.pop_front();
    if (all_gathers_started_ < messages_.gather_parameters.size()) start_next_all_gather();
  }
}

}  // namespace shoal::plan
