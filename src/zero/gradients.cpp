// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradients.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t in_flight = 2;  // messages whose scratch memory is planned; the next one waits for the oldest

/// Backward completes the last unit first; the embedding, which a tied head writes to first, is the last.
std::vector<int> completion_order(std::size_t units) {
  std::vector<int> order(units);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// Whether a gradient is kept other than it is computed.
bool staged(const std::vector<ShardLayout>& layouts, const AccumulationPlan& accumulation, DType dtype) {
  return !layouts.empty() && (accumulation.reduced_every_micro_step || dtype != DType::f32 ||
                              (accumulation.sequential && accumulation.micro_steps_per_round > 1));
}

}  // namespace

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                     const AccumulationPlan& accumulation, const RankGroups& groups, const GradientOptions& options,
                     Memory& memory)
    : units_(units),
      layouts_(layouts),
      accumulation_(accumulation),
      groups_(groups),
      options_(options),
      gathers_(groups.ranks > 1 &&
               std::none_of(layouts.begin(), layouts.end(), [](const ShardLayout& h) { return h.updated_in_part(); })),
      buckets_(make_buckets(units, completion_order(units.size()), groups.ranks, options.bucket_elements)),
      sums_(layouts, accumulation, options.dtype, !staged(layouts, accumulation, options.dtype), memory),
      reducer_(make_gradient_reducer(options.quantized, options.collectives, groups)),
      gatherer_(comm::make_reducer(options.collectives, groups.ranks, groups.group)),
      norm_(layouts, groups, memory),
      squares_(options.squares, layouts, groups, memory),
      begun_(units.size(), false),
      complete_(units.size(), false) {
  if (staged(layouts_, accumulation_, options_.dtype)) {
    const std::vector<Bucket> reduced_from_there = accumulation_.reduced_every_micro_step ? buckets_ : std::vector<Bucket>{};
    staging_ = Staging(units_, completion_order(units_.size()), reduced_from_there, options_.overlap ? 1 : 0, memory);
  }
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

void Gradients::begin_micro_step(std::size_t round, std::size_t micro_step) {
  round_ = round;
  micro_step_ = micro_step;
  std::fill(begun_.begin(), begun_.end(), false);
  std::fill(complete_.begin(), complete_.end(), false);
}

float* Gradients::of(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (!staging_.used()) return reinterpret_cast<float*>(sums_.top(unit, micro_step_));
  if (!begun_[u]) {
    // What an earlier turn left under way has had all of this turn's forward to arrive.
    if (std::none_of(begun_.begin(), begun_.end(), [](bool begun) { return begun; })) finish_buckets();
    while (finished_ < staging_.buckets_before(unit)) finish_oldest();
    begun_[u] = true;
  }
  return reinterpret_cast<float*>(staging_.of(unit));
}

void Gradients::complete(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  require(!complete_[u], "the gradient of unit ", units_[u].name, " was completed twice in one turn");
  complete_[u] = true;
  squares_.measure(unit, of(unit));
  if (staging_.used()) {
    kernels::narrow(options_.dtype, units_[u].elements, reinterpret_cast<float*>(staging_.of(unit)), staging_.of(unit));
    if (!accumulation_.reduced_every_micro_step) sums_.add(unit, micro_step_, {0, units_[u].elements}, staging_.of(unit));
  } else {
    sums_.merge(unit, micro_step_);
  }
  const bool reduces = accumulation_.reduced_every_micro_step || micro_step_ + 1 == accumulation_.micro_steps_per_round;
  // Staged gradients make room for those of the next units: they are sent at once, with or without overlap.
  if (reduces && (options_.overlap || accumulation_.reduced_every_micro_step)) start_ready();
  if (!options_.overlap && accumulation_.reduced_every_micro_step) {
    while (finished_ < started_) finish_oldest();
  }
}

/// What a message takes: from the staged gradient of this turn, or from the sum of the round.
Span<std::byte> Gradients::outgoing(int unit, Range range) const {
  if (!accumulation_.reduced_every_micro_step) return sums_.sum(unit, range);
  const std::size_t size = size_of(options_.dtype);
  return {staging_.of(unit) + range.begin * size, range.size() * size};
}

comm::Blocks Gradients::blocks(const Bucket& bucket) const {
  return bucket_blocks(bucket, layouts_, groups_.ranks, [&](int unit, Range range) { return outgoing(unit, range); });
}

/// Messages are started in one order on all ranks: that of buckets_, each as soon as its last unit is complete.
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

/// Where gradients are reduced every turn, what has arrived joins the partial sums of this rank's shards.
void Gradients::finish_oldest() {
  reducing_.front().wait();
  reducing_.pop_front();
  const Bucket& bucket = buckets_[finished_++];
  if (!accumulation_.reduced_every_micro_step) return;
  for (const Part& part : bucket.parts) {
    const Range range = block_of(part, units_[static_cast<std::size_t>(part.unit)].elements, groups_.rank, groups_.ranks);
    if (!range.empty()) sums_.add(part.unit, reduced_micro_step_, range, outgoing(part.unit, range).data());
  }
}

void Gradients::finish_buckets() {
  while (finished_ < started_) finish_oldest();
  started_ = finished_ = 0;
}

void Gradients::finish_round() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    require(complete_[u], "backward ended without the gradient of unit ", units_[u].name);
  }
  while (started_ < buckets_.size()) start_next();
  finish_buckets();
  for (std::size_t u = 0; u < units_.size(); ++u) sums_.finish_round(static_cast<int>(u), round_);
}

Norm Gradients::norm() {
  quant_state_.trace_errors(buckets_);
  // The shards are final: what others need of them is on its way while their norm is computed.
  if (gathers_ && !reduces_whole()) {
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      gathering_.push_back(start_gather(i));
    }
  }
  const auto shard = [&](int unit) -> Span<const std::byte> {
    return sums_.sum(unit, layouts_[static_cast<std::size_t>(unit)].shard);
  };
  return norm_.of(options_.dtype, shard, squares_.weights());
}

comm::Request Gradients::start_gather(std::size_t bucket) const {
  const trace::OnBehalfOf completed(buckets_[bucket].last_unit);
  const Span<std::byte> scratch = scratch_[bucket % scratch_.size()];
  return gatherer_->all_gather(blocks(buckets_[bucket]), options_.dtype, scratch, {});
}

void Gradients::gather() {
  if (gathering_.empty()) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    gathering_[i % scratch_.size()].wait();
    const std::size_t next = i + scratch_.size();
    if (next < buckets_.size()) gathering_[i % scratch_.size()] = start_gather(next);
  }
  gathering_.clear();
}

}  // namespace shoal::zero
