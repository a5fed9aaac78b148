// SPDX-License-Identifier: Apache-2.0
#include "zero/gradients.hpp"

#include <algorithm>

#include "accumulators.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::zero {

namespace {

/// What buckets are reduced from. The messages of a quantized reduction are codes, in scratch memory.
Use use_of_buckets(const GradientOptions& options, int ranks) {
  return options.quantized ? Use::kernels : comm::use_of(options.collectives, ranks);
}

/// The sums of a round may be what buckets are reduced from, whole sums are gathered, and shards of them sent.
Use use_of_sums(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                const AccumulationPlan& accumulation, int ranks, const GradientOptions& options) {
  Use use = accumulation.reduced_every_micro_step ? Use::kernels : use_of_buckets(options, ranks);
  if (gathers_gradients(layouts, ranks)) use = comm::use_of(options.collectives, ranks);
  bool sends = options.sends_shards;
  for (std::size_t u = 0; u < units.size(); ++u) sends |= units[u].copy_of && crosses_stages(units, layouts, u);
  return sends ? std::max(use, Use::messages) : use;
}

}  // namespace

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const std::vector<ShardLayout>& layouts,
                     const Sweeps& sweeps, const AccumulationPlan& accumulation, const RankGroups& groups,
                     const GradientOptions& options, Memory& memory, const std::vector<Where>& places)
    : units_(units),
      layouts_(layouts),
      accumulation_(accumulation),
      groups_(groups),
      options_(options),
      gathers_(gathers_gradients(layouts, groups.ranks)),
      buckets_(buckets_of_sweeps(units, sweeps, groups.ranks, options.bucket_elements)),
      gathered_(without_copies(buckets_, units, groups.ranks)),
      sums_(layouts, accumulation, options.dtype, accumulates_in_place(accumulation, options.dtype), memory,
            use_of_sums(units, layouts, accumulation, groups.ranks, options), places),
      reducer_(make_gradient_reducer(options.quantized, options.collectives, groups)),
      gatherer_(comm::make_reducer(options.collectives, groups.ranks, groups.group)),
      norm_(without_copies(units, layouts), groups, options.squares == Squares::weighted, memory),
      squares_(options.squares, without_copies(units, layouts), groups, accumulation.turns(), memory),
      accumulator_(make_accumulator(units, sweeps, buckets_, options.overlap, accumulation, options.dtype, sums_, memory,
                                    use_of_buckets(options, groups.ranks))),
      order_(units, sweeps, buckets_, accumulation, options.overlap,
             buckets_before_writes(units, sweeps, buckets_, options.overlap, accumulation)),
      gather_(gathered_.size()) {
  if (options_.quantized) quant_state_ = GradientQuantState(*options_.quantized, buckets_, layouts_, groups_, memory);
  std::size_t scratch = 0;
  for (const Bucket& bucket : buckets_) {
    const comm::MessageBounds bounds = bounds_of(bucket, layouts_, groups_.ranks);
    scratch = std::max({scratch, reducer_->reduce_scratch_bytes(bounds, options_.dtype),
                        gatherer_->gather_scratch_bytes(bounds, options_.dtype)});
  }
  for (std::size_t i = 0; i < std::min(messages_in_flight, buckets_.size()); ++i) {
    scratch_.push_back(
        memory.take<std::byte>(Kind::buffers, scratch, "messages", comm::use_of(options.collectives, groups.ranks)));
  }
}

Gradients::~Gradients() = default;

float* Gradients::of(int unit) {
  if (!order_.open(unit)) {
    execute(order_.begin(unit));
    accumulator_->begin(unit);
  }
  return accumulator_->buffer(unit, accumulation_.micro_step_of(order_.turn(unit)));
}

void Gradients::complete(int unit) {
  const std::size_t turn = order_.turn(unit), micro_step = accumulation_.micro_step_of(turn);
  const ReductionCalls calls = order_.complete(unit);
  squares_.measure(unit, accumulator_->buffer(unit, micro_step), turn);
  accumulator_->complete(unit, micro_step);
  execute(calls);
}

void Gradients::execute(const ReductionCalls& calls) {
  for (const ReductionCall& call : calls) {
    if (call.kind == Call::Kind::start) {
      start(call.bucket);
    } else {
      finish(call.bucket, call.turn);
    }
  }
}

comm::Blocks Gradients::blocks(const Bucket& bucket) const {
  return bucket_blocks(bucket, layouts_, groups_.ranks,
                       [&](int unit, Range range) { return accumulator_->bucket_part(unit, range); });
}

void Gradients::start(std::size_t bucket) {
  const Span<std::byte> scratch = scratch_[started_++ % scratch_.size()];
  const trace::OnBehalfOf completed(buckets_[bucket].last_unit);
  reducing_.push_back(reduce(bucket, scratch));
}

comm::Request Gradients::reduce(std::size_t bucket, Span<std::byte> scratch) {
  if (reduces_whole()) return reducer_->all_reduce(blocks(buckets_[bucket]), options_.dtype);
  return reducer_->reduce_scatter(blocks(buckets_[bucket]), options_.dtype, scratch, quant_state_.of(bucket));
}

/// Returns true if the reduction leaves the whole sum on every rank, so that nothing is left to gather.
bool Gradients::reduces_whole() const { return gathers_ && !in_shards_ && reducer_->has_all_reduce(); }

/// Waits for this reduction: reductions end in the order in which they started, so it is the oldest.
void Gradients::finish(std::size_t bucket, std::size_t turn) {
  reducing_.front().wait();
  reducing_.pop_front();
  const std::size_t micro_step = accumulation_.micro_step_of(turn), round = accumulation_.round_of(turn);
  const bool ends_round = micro_step + 1 == accumulation_.micro_steps_per_round;
  for (const BucketPiece& part : buckets_[bucket].parts) {
    const Range range = block_of(part, units_[static_cast<std::size_t>(part.unit)].elements, groups_.rank, groups_.ranks);
    if (range.empty()) continue;
    accumulator_->reduced(part.unit, micro_step, range);
    if (ends_round) sums_.finish_round(part.unit, round, range);
  }
}

void Gradients::finish_step() {
  execute(order_.end_step());
  started_ = 0;
}

void Gradients::start_gather() {
  if (has_to_gather()) execute_gather(gather_.start());
}

void Gradients::execute_gather(const Calls& calls) {
  for (const Call& call : calls) {
    if (call.kind == Call::Kind::start) {
      gathering_.push_back(gather(call.message));
    } else {
      gathering_.front().wait();
      gathering_.pop_front();
    }
  }
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
  require(!gather_.all_ended() || gathered_.empty(), "gradients are used before their gather was started");
  execute_gather(gather_.wait_for_all());
}

}  // namespace shoal::zero
