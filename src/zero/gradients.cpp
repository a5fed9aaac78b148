// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradients.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "accumulators.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // buckets with scratch memory of their own; the next one waits for the oldest

constexpr std::size_t no_sweep = std::numeric_limits<std::size_t>::max();

/// The buckets of each unit, which follow each other.
std::vector<Range> buckets_by_unit(const std::vector<Bucket>& buckets, std::size_t units) {
  std::vector<Range> result(units);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const Part& part : buckets[b].parts) {
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

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                     const Sweeps& sweeps, const AccumulationPlan& accumulation, const RankGroups& groups,
                     const GradientOptions& options, Memory& memory)
    : units_(units),
      layouts_(layouts),
      sweeps_(sweeps),
      accumulation_(accumulation),
      groups_(groups),
      options_(options),
      // Gradients that are reduced after every micro-step are sent at once in any case: the next units need their memory.
      start_(options.overlap                         ? Start::in_backward
             : accumulation.reduced_every_micro_step ? Start::in_backward_waiting
                                                     : Start::between_turns),
      first_reduced_micro_step_(accumulation.reduced_every_micro_step ? 0 : accumulation.micro_steps_per_round - 1),
      gathers_(groups.ranks > 1 && std::none_of(layouts.begin(), layouts.end(),
                                                [](const ShardLayout& layout) { return layout.updated_in_part(); })),
      buckets_(buckets_of_sweeps(units, sweeps, groups.ranks, options.bucket_elements)),
      gathered_(without_copies(buckets_, units, groups.ranks)),
      buckets_of_(buckets_by_unit(buckets_, units.size())),
      sums_(layouts, accumulation, options.dtype, accumulates_in_place(accumulation, options.dtype), memory),
      reducer_(make_gradient_reducer(options.quantized, options.collectives, groups)),
      gatherer_(comm::make_reducer(options.collectives, groups.ranks, groups.group)),
      norm_(without_copies(units, layouts), groups, options.squares == Squares::weighted, memory),
      squares_(options.squares, without_copies(units, layouts), groups, accumulation.turns(), memory),
      accumulator_(
          make_accumulator(units, sweeps, buckets_, options.overlap ? 1 : 0, accumulation, options.dtype, sums_, memory)),
      sweep_of_(sweep_by_unit(sweeps, units.size())),
      turn_of_(units.size(), 0),
      open_(units.size(), false),
      begun_(sweeps.size(), 0) {
  if (options_.quantized) quant_state_ = GradientQuantState(*options_.quantized, buckets_, layouts_, groups_, memory);
  std::size_t scratch = 0;
  for (const Bucket& bucket : buckets_) {
    const comm::MessageBounds bounds = bounds_of(bucket, layouts_, groups_.ranks);
    scratch = std::max({scratch, reducer_->reduce_scratch_bytes(bounds, options_.dtype),
                        gatherer_->gather_scratch_bytes(bounds, options_.dtype)});
  }
  for (std::size_t i = 0; i < std::min(in_flight, buckets_.size()); ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages"));
  }
}

Gradients::~Gradients() = default;

float* Gradients::of(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (!open_[u]) {
    require(sweep_of_[u] != no_sweep && turn_of_[u] < accumulation_.turns(), "unit ", units_[u].name,
            " has no gradient of turn ", turn_of_[u]);
    if (turn_of_[u] == begun_[sweep_of_[u]]) begin_turn(sweep_of_[u]);
    while (finished_ < accumulator_->buckets_before(unit)) finish_oldest();
    accumulator_->begin(unit);
    open_[u] = true;
  }
  return accumulator_->buffer(unit, accumulation_.micro_step_of(turn_of_[u]));
}

/// The buckets of earlier turns were in flight until now; now the memory that they use is needed. Where gradients are
/// reduced after every micro-step, all sweeps write to the same memory, so no other sweep may be in the middle of a turn.
void Gradients::begin_turn(std::size_t sweep) {
  for (std::size_t s = 0; s < sweeps_.size(); ++s) {
    if (s == sweep || accumulation_.reduced_every_micro_step) require_complete(s);
  }
  ++begun_[sweep];
  start_ready();
  finish_started();
  finished_ = 0;
}

/// fail() unless all units of the sweep have completed the turns that it has begun.
void Gradients::require_complete(std::size_t sweep) const {
  for (const int unit : sweeps_[sweep]) {
    const auto u = static_cast<std::size_t>(unit);
    require(turn_of_[u] == begun_[sweep], "a turn begins before the gradient of unit ", units_[u].name, " of turn ",
            turn_of_[u], " is complete");
  }
}

void Gradients::complete(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  require(open_[u], "the gradient of unit ", units_[u].name, " was completed before it was begun, or twice in one turn");
  const std::size_t turn = turn_of_[u], micro_step = accumulation_.micro_step_of(turn);
  squares_.measure(unit, accumulator_->buffer(unit, micro_step), turn);
  accumulator_->complete(unit, micro_step);
  open_[u] = false;
  ++turn_of_[u];
  if (micro_step < first_reduced_micro_step_) return;
  add_ready(unit, turn);
  if (start_ == Start::between_turns) return;
  start_ready();
  if (start_ == Start::in_backward_waiting) finish_started();
}

/// Adds the buckets that can be reduced since the unit has completed this turn: those whose other units have, too. The order
/// is the same on all ranks.
void Gradients::add_ready(int unit, std::size_t turn) {
  const auto has_completed = [&](const Part& part) { return turn_of_[static_cast<std::size_t>(part.unit)] > turn; };
  const Range own = buckets_of_[static_cast<std::size_t>(unit)];
  for (std::size_t b = own.begin; b < own.end; ++b) {
    const std::vector<Part>& parts = buckets_[b].parts;
    if (std::all_of(parts.begin(), parts.end(), has_completed)) ready_.push_back({b, turn});
  }
}

comm::Blocks Gradients::blocks(const Bucket& bucket) const {
  return bucket_blocks(bucket, layouts_, groups_.ranks,
                       [&](int unit, Range range) { return accumulator_->bucket_part(unit, range); });
}

void Gradients::start_ready() {
  for (; !ready_.empty(); ready_.pop_front()) {
    if (reducing_.size() == scratch_.size()) finish_oldest();
    const std::size_t bucket = ready_.front().bucket;
    const Span<std::byte> scratch = scratch_[started_++ % scratch_.size()];
    const trace::OnBehalfOf completed(buckets_[bucket].last_unit);
    reducing_.push_back({ready_.front(), reduce(bucket, scratch)});
  }
}

comm::Request Gradients::reduce(std::size_t bucket, Span<std::byte> scratch) {
  if (reduces_whole()) return reducer_->all_reduce(blocks(buckets_[bucket]), options_.dtype);
  return reducer_->reduce_scatter(blocks(buckets_[bucket]), options_.dtype, scratch, quant_state_.of(bucket));
}

/// Returns true if the reduction leaves the whole sum on every rank, so that nothing is left to gather.
bool Gradients::reduces_whole() const { return gathers_ && !in_shards_ && reducer_->has_all_reduce(); }

void Gradients::finish_oldest() {
  reducing_.front().request.wait();
  const auto [bucket, turn] = reducing_.front().what;
  reducing_.pop_front();
  ++finished_;
  const std::size_t micro_step = accumulation_.micro_step_of(turn), round = accumulation_.round_of(turn);
  const bool ends_round = micro_step + 1 == accumulation_.micro_steps_per_round;
  for (const Part& part : buckets_[bucket].parts) {
    const Range range = block_of(part, units_[static_cast<std::size_t>(part.unit)].elements, groups_.rank, groups_.ranks);
    if (range.empty()) continue;
    accumulator_->reduced(part.unit, micro_step, range);
    if (ends_round) sums_.finish_round(part.unit, round, range);
  }
}

void Gradients::finish_started() {
  while (!reducing_.empty()) finish_oldest();
}

void Gradients::finish_step() {
  for (const std::vector<int>& sweep : sweeps_) {
    for (const int unit : sweep) {
      std::size_t& turn = turn_of_[static_cast<std::size_t>(unit)];
      require(turn == accumulation_.turns(), "the step ends without the gradient of unit ",
              units_[static_cast<std::size_t>(unit)].name, " of turn ", turn);
      turn = 0;
    }
  }
  std::fill(begun_.begin(), begun_.end(), 0);
  start_ready();
  finish_started();
  started_ = 0;
}

void Gradients::start_gather() {
  if (!has_to_gather()) return;
  for (std::size_t i = 0; i < std::min(scratch_.size(), gathered_.size()); ++i) gathering_.push_back(gather(i));
}

void Gradients::measure_norm() {
  const auto shard = [&](int unit) -> Span<const std::byte> {
    return sums_.sum(unit, layouts_[static_cast<std::size_t>(unit)].shard);
  };
  norm_.measure(options_.dtype, shard, squares_.weights());
  squares_.fetch();
  quant_state_.fetch_errors();
}

Norm Gradients::norm() {
  quant_state_.trace_errors(buckets_);
  return norm_.norm();
}

comm::Request Gradients::gather(std::size_t message) const {
  const trace::OnBehalfOf completed(gathered_[message].last_unit);
  const Span<std::byte> scratch = scratch_[message % scratch_.size()];
  return gatherer_->all_gather(blocks(gathered_[message]), options_.dtype, scratch, {});
}

void Gradients::wait_for_gather() {
  if (!has_to_gather()) return;
  require(gathering_.size() == std::min(scratch_.size(), gathered_.size()),
          "gradients are used before their gather was started");
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    gathering_[i % scratch_.size()].wait();
    const std::size_t next = i + scratch_.size();
    if (next < gathered_.size()) gathering_[i % scratch_.size()] = gather(next);
  }
  gathering_.clear();
}

}  // namespace shoal::zero
