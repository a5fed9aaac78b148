// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradients.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "accumulators.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // buckets with scratch memory of their own; the next one waits for the oldest

/// Backward completes the last unit first and the embedding last, even if a tied head begins the embedding's gradient.
std::vector<int> completion_order(std::size_t units) {
  std::vector<int> order(units);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

}  // namespace

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                     const AccumulationPlan& accumulation, const RankGroups& groups, const GradientOptions& options,
                     Memory& memory)
    : units_(units),
      layouts_(layouts),
      groups_(groups),
      options_(options),
      // Gradients that are reduced after every micro-step are sent at once in any case: the next units need their memory.
      start_(options.overlap                         ? Start::in_backward
             : accumulation.reduced_every_micro_step ? Start::in_backward_waiting
                                                     : Start::at_end_of_round),
      micro_steps_per_round_(accumulation.micro_steps_per_round),
      first_reduced_micro_step_(accumulation.reduced_every_micro_step ? 0 : accumulation.micro_steps_per_round - 1),
      gathers_(groups.ranks > 1 && std::none_of(layouts.begin(), layouts.end(),
                                                [](const ShardLayout& layout) { return layout.updated_in_part(); })),
      buckets_(make_buckets(units, completion_order(units.size()), groups.ranks, options.bucket_elements)),
      sums_(layouts, accumulation, options.dtype, accumulates_in_place(accumulation, options.dtype), memory),
      reducer_(make_gradient_reducer(options.quantized, options.collectives, groups)),
      gatherer_(comm::make_reducer(options.collectives, groups.ranks, groups.group)),
      norm_(layouts, groups, options.squares == Squares::weighted, memory),
      squares_(options.squares, layouts, groups, accumulation.rounds * accumulation.micro_steps_per_round, memory),
      accumulator_(make_accumulator(units, completion_order(units.size()), buckets_, options.overlap ? 1 : 0, accumulation,
                                    options.dtype, sums_, memory)),
      may_write_(units.size(), false),
      complete_(units.size(), false) {
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

void Gradients::begin_micro_step(std::size_t round, std::size_t micro_step) {
  round_ = round;
  micro_step_ = micro_step;
  first_buffer_ = true;
  std::fill(may_write_.begin(), may_write_.end(), false);
  std::fill(complete_.begin(), complete_.end(), false);
}

float* Gradients::of(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (!may_write_[u]) {
    // The buckets of the last micro-step were in flight during this one's forward; now their memory is needed.
    if (std::exchange(first_buffer_, false)) finish_reduction();
    while (finished_ < accumulator_->buckets_before(unit)) finish_oldest();
    may_write_[u] = true;
  }
  return accumulator_->buffer(unit, micro_step_);
}

void Gradients::complete(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  require(!complete_[u], "the gradient of unit ", units_[u].name, " was completed twice in one micro-step");
  complete_[u] = true;
  squares_.measure(unit, of(unit), round_ * micro_steps_per_round_ + micro_step_);
  accumulator_->complete(unit, micro_step_);
  if (start_ == Start::at_end_of_round || micro_step_ < first_reduced_micro_step_) return;
  start_ready();
  if (start_ == Start::in_backward_waiting) finish_started();
}

comm::Blocks Gradients::blocks(const Bucket& bucket) const {
  return bucket_blocks(bucket, layouts_, groups_.ranks,
                       [&](int unit, Range range) { return accumulator_->bucket_part(unit, range); });
}

/// Starts all buckets whose last unit is complete, in the order of buckets_, which is the same on all ranks.
void Gradients::start_ready() {
  while (started_ < buckets_.size() && complete_[static_cast<std::size_t>(buckets_[started_].last_unit)]) start_next();
}

void Gradients::start_next() {
  if (started_ == 0) reduced_micro_step_ = micro_step_;
  if (started_ - finished_ == scratch_.size()) finish_oldest();
  const Span<std::byte> scratch = scratch_[started_ % scratch_.size()];
  const trace::OnBehalfOf completed(buckets_[started_].last_unit);
  reducing_.push_back(reduce(started_, scratch));
  ++started_;
}

comm::Request Gradients::reduce(std::size_t bucket, Span<std::byte> scratch) {
  if (reduces_whole()) return reducer_->all_reduce(blocks(buckets_[bucket]), options_.dtype);
  return reducer_->reduce_scatter(blocks(buckets_[bucket]), options_.dtype, scratch, quant_state_.of(bucket));
}

/// Returns true if the reduction leaves the whole sum on every rank, so that nothing is left to gather.
bool Gradients::reduces_whole() const { return gathers_ && !in_shards_ && reducer_->has_all_reduce(); }

void Gradients::finish_oldest() {
  reducing_.front().wait();
  reducing_.pop_front();
  const Bucket& bucket = buckets_[finished_++];
  for (const Part& part : bucket.parts) {
    const Range range = block_of(part, units_[static_cast<std::size_t>(part.unit)].elements, groups_.rank, groups_.ranks);
    if (!range.empty()) accumulator_->reduced(part.unit, reduced_micro_step_, range);
  }
}

void Gradients::finish_started() {
  while (finished_ < started_) finish_oldest();
}

void Gradients::finish_reduction() {
  finish_started();
  started_ = finished_ = 0;
}

void Gradients::finish_round() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    require(complete_[u], "backward ended without the gradient of unit ", units_[u].name);
  }
  while (started_ < buckets_.size()) start_next();
  finish_reduction();
  for (std::size_t u = 0; u < units_.size(); ++u) sums_.finish_round(static_cast<int>(u), round_);
}

void Gradients::start_gather() {
  if (!has_to_gather()) return;
  for (std::size_t i = 0; i < scratch_.size(); ++i) gathering_.push_back(gather(i));
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

comm::Request Gradients::gather(std::size_t bucket) const {
  const trace::OnBehalfOf completed(buckets_[bucket].last_unit);
  const Span<std::byte> scratch = scratch_[bucket % scratch_.size()];
  return gatherer_->all_gather(blocks(buckets_[bucket]), options_.dtype, scratch, {});
}

void Gradients::wait_for_gather() {
  if (!has_to_gather()) return;
  require(gathering_.size() == scratch_.size(), "gradients are used before their gather was started");
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    gathering_[i % scratch_.size()].wait();
    const std::size_t next = i + scratch_.size();
    if (next < buckets_.size()) gathering_[i % scratch_.size()] = gather(next);
  }
  gathering_.clear();
}

}  // namespace shoal::zero
