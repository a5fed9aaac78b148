// SPDX-License-Identifier: Apache-2.0
#include "zero/reduction_order.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "shoal/base/error.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t no_sweep = std::numeric_limits<std::size_t>::max();

/// The buckets of each unit, which follow each other.
std::vector<Range> buckets_by_unit(const std::vector<Bucket>& buckets, std::size_t units) {
  std::vector<Range> result(units);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const BucketPiece& part : buckets[b].parts) {
      Range& own = result[static_cast<std::size_t>(part.unit)];
      own = own.empty() ? Range{b, b + 1} : Range{own.begin, b + 1};
    }
  }
  return result;
}

std::vector<std::size_t> sweep_by_unit(const Sweeps& sweeps, std::size_t units) {
  std::vector<std::size_t> result(units, no_sweep);
  for (std::size_t s = 0; s < sweeps.size(); ++s) {
    for (const int unit : sweeps[s]) result[static_cast<std::size_t>(unit)] = s;
  }
  return result;
}

}  // namespace

ReductionOrder::ReductionOrder(const std::vector<model::UnitLayout>& units, const Sweeps& sweeps,
                               const std::vector<Bucket>& buckets, const AccumulationPlan& accumulation, bool overlap,
                               std::vector<std::size_t> buckets_before)
    : sweeps_(sweeps),
      buckets_(buckets),
      accumulation_(accumulation),
      // Gradients that are reduced after every micro-step are sent at once in any case: the next units need their memory.
      start_(overlap                                 ? Start::in_backward
             : accumulation.reduced_every_micro_step ? Start::in_backward_waiting
                                                     : Start::between_turns),
      first_reduced_micro_step_(accumulation.reduced_every_micro_step ? 0 : accumulation.micro_steps_per_round - 1),
      in_flight_(std::min(messages_in_flight, buckets.size())),
      buckets_before_(std::move(buckets_before)),
      buckets_of_(buckets_by_unit(buckets, units.size())),
      sweep_of_(sweep_by_unit(sweeps, units.size())),
      turn_(units.size(), 0),
      open_(units.size(), false),
      begun_(sweeps.size(), 0) {
  for (const model::UnitLayout& unit : units) names_.push_back(unit.name);
}

ReductionCalls ReductionOrder::begin(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  ReductionCalls calls;
  if (open_[u]) return calls;
  require(sweep_of_[u] != no_sweep && turn_[u] < accumulation_.turns(), "unit ", names_[u], " has no gradient of turn ",
          turn_[u]);
  if (turn_[u] == begun_[sweep_of_[u]]) begin_turn(sweep_of_[u], calls);
  while (ended_ < buckets_before_[u]) wait_for_oldest(calls);
  open_[u] = true;
  return calls;
}

/// The buckets of earlier turns were in flight until now; now the memory that they use is needed. If gradients are
/// reduced after every micro-step, all sweeps write to the same memory, so no other sweep may be in the middle of a turn.
void ReductionOrder::begin_turn(std::size_t sweep, ReductionCalls& calls) {
  for (std::size_t s = 0; s < sweeps_.size(); ++s) {
    if (s == sweep || accumulation_.reduced_every_micro_step) require_complete(s);
  }
  ++begun_[sweep];
  start_ready(calls);
  wait_for_started(calls);
  ended_ = 0;
}

/// fail() unless all units of the sweep have completed the turns that it has begun.
void ReductionOrder::require_complete(std::size_t sweep) const {
  for (const int unit : sweeps_[sweep]) {
    const auto u = static_cast<std::size_t>(unit);
    require(turn_[u] == begun_[sweep], "a turn begins before the gradient of unit ", names_[u], " of turn ", turn_[u],
            " is complete");
  }
}

ReductionCalls ReductionOrder::complete(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  require(open_[u], "the gradient of unit ", names_[u], " was completed before it was begun, or twice in one turn");
  const std::size_t turn = turn_[u]++;
  open_[u] = false;
  ReductionCalls calls;
  if (accumulation_.micro_step_of(turn) < first_reduced_micro_step_) return calls;
  add_ready(unit, turn);
  if (start_ == Start::between_turns) return calls;
  start_ready(calls);
  if (start_ == Start::in_backward_waiting) wait_for_started(calls);
  return calls;
}

/// Adds the buckets that can be reduced since the unit has completed this turn: those whose other units have, too.
void ReductionOrder::add_ready(int unit, std::size_t turn) {
  const auto has_completed = [&](const BucketPiece& part) { return turn_[static_cast<std::size_t>(part.unit)] > turn; };
  const Range own = buckets_of_[static_cast<std::size_t>(unit)];
  for (std::size_t b = own.begin; b < own.end; ++b) {
    const std::vector<BucketPiece>& parts = buckets_[b].parts;
    if (std::all_of(parts.begin(), parts.end(), has_completed)) ready_.push_back({b, turn});
  }
}

void ReductionOrder::start_ready(ReductionCalls& calls) {
  for (; !ready_.empty(); ready_.pop_front()) {
    if (reducing_.size() == in_flight_) wait_for_oldest(calls);
    const auto [bucket, turn] = ready_.front();
    calls.push_back({Call::Kind::start, bucket, turn});
    reducing_.push_back(ready_.front());
  }
}

void ReductionOrder::wait_for_oldest(ReductionCalls& calls) {
  const auto [bucket, turn] = reducing_.front();
  calls.push_back({Call::Kind::wait, bucket, turn});
  reducing_.pop_front();
  ++ended_;
}

void ReductionOrder::wait_for_started(ReductionCalls& calls) {
  while (!reducing_.empty()) wait_for_oldest(calls);
}

ReductionCalls ReductionOrder::end_step() {
  for (const std::vector<int>& sweep : sweeps_) {
    for (const int unit : sweep) {
      std::size_t& turn = turn_[static_cast<std::size_t>(unit)];
      require(turn == accumulation_.turns(), "the step ends without the gradient of unit ",
              names_[static_cast<std::size_t>(unit)], " of turn ", turn);
      turn = 0;
    }
  }
  std::fill(begun_.begin(), begun_.end(), 0);
  ReductionCalls calls;
  start_ready(calls);
  wait_for_started(calls);
  return calls;
}

}  // namespace shoal::zero
