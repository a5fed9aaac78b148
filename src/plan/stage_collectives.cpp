// SPDX-License-Identifier: Apache-2.0
#include "stage_collectives.hpp"

#include <algorithm>

namespace shoal::plan {

StageCollectives::StageCollectives(const StageReductions& reductions, bool overlap, Recorder& recorder)
    : reductions_(reductions), overlap_(overlap), recorder_(recorder), buckets_(reductions.units.size()) {
  const std::vector<zero::Bucket>& buckets = reductions_.messages.buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    buckets_[static_cast<std::size_t>(buckets[b].last_unit)].push_back(b);
  }
}

std::size_t StageCollectives::start(OperationKind kind, const Cost& cost) {
  recorder_.starts(operations_, kind, cost, operations_);
  return operations_++;
}

void StageCollectives::run(const Cost& cost) { recorder_.waits(start(OperationKind::all_gather, cost)); }

void StageCollectives::finish_oldest(std::deque<std::size_t>& operations) {
  recorder_.waits(operations.front());
  operations.pop_front();
}

void StageCollectives::complete(std::size_t unit, std::size_t turn) {
  const zero::AccumulationPlan& accumulation = reductions_.accumulation;
  if (accumulation.micro_step_of(turn) + 1 < accumulation.micro_steps_per_round) return;
  for (const std::size_t bucket : buckets_[unit]) ready_.push_back(bucket);
  if (overlap_) start_reduces();
}

void StageCollectives::start_reduces() {
  for (; !ready_.empty(); ready_.pop_front()) {
    if (reducing_.size() == most_in_flight) finish_oldest(reducing_);
    reducing_.push_back(start(OperationKind::reduce_scatter, *reductions_.messages.reduce[ready_.front()]));
  }
}

void StageCollectives::finish_reduces() {
  start_reduces();
  while (!reducing_.empty()) finish_oldest(reducing_);
}

void StageCollectives::start_gradient_gather() {
  const std::vector<SharedCost>& costs = reductions_.messages.gather_gradients;
  for (std::size_t i = 0; i < std::min(most_in_flight, costs.size()); ++i) {
    gathering_.push_back(start(OperationKind::all_gather, *costs[i]));
  }
}

void StageCollectives::finish_gradient_gather() {
  const std::vector<SharedCost>& costs = reductions_.messages.gather_gradients;
  for (std::size_t next = most_in_flight; !gathering_.empty(); ++next) {
    finish_oldest(gathering_);
    if (next < costs.size()) gathering_.push_back(start(OperationKind::all_gather, *costs[next]));
  }
}

void StageCollectives::start_parameter_gather() {
  parameters_started_ = parameters_finished_ = 0;
  const std::size_t buckets = reductions_.messages.gather_parameters.size();
  while (parameters_started_ < std::min(most_in_flight, buckets)) start_next_parameters();
  if (!overlap_) wait_for_gathered(buckets);
}

void StageCollectives::start_next_parameters() {
  const Cost& cost = *reductions_.messages.gather_parameters[parameters_started_++];
  gathering_parameters_.push_back(start(OperationKind::all_gather, cost));
}

void StageCollectives::wait_for_gathered(std::size_t buckets) {
  if (parameters_started_ == 0) return;  // there was no update yet
  for (; parameters_finished_ < buckets; ++parameters_finished_) {
    finish_oldest(gathering_parameters_);
    if (parameters_started_ < reductions_.messages.gather_parameters.size()) start_next_parameters();
  }
}

}  // namespace shoal::plan
