// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/gradients.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

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
bool staged(const std::vector<Holding>& holdings, const Turns& turns, DType dtype) {
  return !holdings.empty() && (turns.reduced_every_turn || dtype != DType::f32 || (turns.sequential && turns.per_round > 1));
}

}  // namespace

Gradients::Gradients(const std::vector<model::UnitLayout>& units, const std::vector<Holding>& holdings, const Turns& turns,
                     const Placement& placement, const GradientOptions& options, Memory& memory)
    : units_(units),
      holdings_(holdings),
      turns_(turns),
      placement_(placement),
      options_(options),
      gathers_(std::none_of(holdings.begin(), holdings.end(), [](const Holding& h) { return h.updated_in_part(); })),
      messages_(cut_messages(units, completion_order(units.size()), placement.ranks, options.message_elements)),
      sums_(holdings, turns, options.dtype, !staged(holdings, turns, options.dtype), memory),
      norm_(holdings, placement, memory),
      squares_(options.squares, holdings, placement, memory),
      begun_(units.size(), false),
      complete_(units.size(), false) {
  if (staged(holdings_, turns_, options_.dtype)) {
    const std::vector<Message> reduced_from_there = turns_.reduced_every_turn ? messages_ : std::vector<Message>{};
    staging_ = Staging(units_, completion_order(units_.size()), reduced_from_there, options_.overlap ? 1 : 0, memory);
  }
  std::size_t largest = 0;
  for (const Message& message : messages_) largest = std::max(largest, message.elements);
  std::size_t scratch = comm::scratch_bytes(options_.collectives, placement_.ranks, largest * size_of(options_.dtype));
  if (options_.quantized && placement_.ranks > 1) {
    quantizer_.emplace(*options_.quantized, messages_, holdings_, placement_, memory);
    scratch = std::max(scratch, quantizer_->scratch_bytes());
  }
  for (std::size_t i = 0; i < std::min(in_flight, messages_.size()); ++i) {
    scratch_.push_back(memory.take<std::byte>(Kind::buffers, scratch, "messages"));
  }
}

void Gradients::begin_turn(std::size_t round, std::size_t turn) {
  round_ = round;
  turn_ = turn;
  std::fill(begun_.begin(), begun_.end(), false);
  std::fill(complete_.begin(), complete_.end(), false);
}

float* Gradients::of(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  if (!staging_.used()) return reinterpret_cast<float*>(sums_.top(unit, turn_));
  if (!begun_[u]) {
    // What an earlier turn left under way has had all of this turn's forward to arrive.
    if (std::none_of(begun_.begin(), begun_.end(), [](bool begun) { return begun; })) finish_messages();
    while (finished_ < staging_.messages_before(unit)) finish_oldest();
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
    if (!turns_.reduced_every_turn) sums_.add(unit, turn_, {0, units_[u].elements}, staging_.of(unit));
  } else {
    sums_.merge(unit, turn_);
  }
  const bool reduces = turns_.reduced_every_turn || turn_ + 1 == turns_.per_round;
  // Staged gradients make room for those of the next units: they are sent at once, with or without overlap.
  if (reduces && (options_.overlap || turns_.reduced_every_turn)) start_ready();
  if (!options_.overlap && turns_.reduced_every_turn) {
    while (finished_ < started_) finish_oldest();
  }
}

/// What a message takes: from the staged gradient of this turn, or from the sum of the round.
Span<std::byte> Gradients::outgoing(int unit, Range range) const {
  if (!turns_.reduced_every_turn) return sums_.sum(unit, range);
  const std::size_t size = size_of(options_.dtype);
  return {staging_.of(unit) + range.begin * size, range.size() * size};
}

comm::Blocks Gradients::blocks(const Message& message) const {
  return message_blocks(message, holdings_, placement_.ranks, [&](int unit, Range range) { return outgoing(unit, range); });
}

/// Messages are started in one order on all ranks: that of messages_, each as soon as its last unit is complete.
void Gradients::start_ready() {
  while (started_ < messages_.size() && complete_[static_cast<std::size_t>(messages_[started_].last_unit)]) start_next();
}

void Gradients::start_next() {
  if (started_ == 0) reduced_turn_ = turn_;
  if (started_ - finished_ == scratch_.size()) finish_oldest();
  const Span<std::byte> scratch = scratch_[started_ % scratch_.size()];
  const trace::OnBehalfOf completed(messages_[started_].last_unit);
  reducing_.push_back(reduce(started_, scratch));
  ++started_;
}

comm::Request Gradients::reduce(std::size_t message, Span<std::byte> scratch) {
  if (placement_.ranks == 1) return {};
  comm::Blocks outgoing = blocks(messages_[message]);
  if (quantizer_) return quantizer_->reduce(message, std::move(outgoing), options_.dtype, scratch);
  if (reduces_whole()) return comm::native_all_reduce(*placement_.group, outgoing);
  return comm::reduce_scatter(options_.collectives, *placement_.group, std::move(outgoing), options_.dtype, scratch);
}

/// The library's all-reduce leaves the whole sum on every rank.
bool Gradients::reduces_whole() const {
  return gathers_ && !in_shards_ && options_.collectives == comm::Collectives::native && options_.dtype == DType::f32;
}

/// Where gradients are reduced every turn, what has arrived joins the partial sums of this rank's shards.
void Gradients::finish_oldest() {
  reducing_.front().wait();
  reducing_.pop_front();
  const Message& message = messages_[finished_++];
  if (!turns_.reduced_every_turn) return;
  for (const Part& part : message.parts) {
    const Range range =
        block_of(part, units_[static_cast<std::size_t>(part.unit)].elements, placement_.rank, placement_.ranks);
    if (!range.empty()) sums_.add(part.unit, reduced_turn_, range, outgoing(part.unit, range).data());
  }
}

void Gradients::finish_messages() {
  while (finished_ < started_) finish_oldest();
  started_ = finished_ = 0;
}

void Gradients::finish_round() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    require(complete_[u], "backward ended without the gradient of unit ", units_[u].name);
  }
  while (started_ < messages_.size()) start_next();
  finish_messages();
  for (std::size_t u = 0; u < units_.size(); ++u) sums_.finish_round(static_cast<int>(u), round_);
}

Norm Gradients::norm() {
  if (quantizer_) quantizer_->trace_errors(messages_);
  // The shards are final: what others need of them is on its way while their norm is computed.
  if (gathers_ && placement_.ranks > 1 && !reduces_whole()) {
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      gathering_.push_back(start_gather(i));
    }
  }
  const auto shard = [&](int unit) -> Span<const std::byte> {
    return sums_.sum(unit, holdings_[static_cast<std::size_t>(unit)].shard);
  };
  return norm_.of(options_.dtype, shard, squares_.weights());
}

comm::Request Gradients::start_gather(std::size_t message) const {
  const trace::OnBehalfOf completed(messages_[message].last_unit);
  const Span<std::byte> scratch = scratch_[message % scratch_.size()];
  return comm::all_gather(options_.collectives, *placement_.group, blocks(messages_[message]), scratch);
}

void Gradients::gather() {
  if (gathering_.empty()) return;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    gathering_[i % scratch_.size()].wait();
    const std::size_t next = i + scratch_.size();
    if (next < messages_.size()) gathering_[i % scratch_.size()] = start_gather(next);
  }
  gathering_.clear();
}

std::vector<NamedSlice> Gradients::residual_slices() const {
  return quantizer_ ? quantizer_->residual_slices() : std::vector<NamedSlice>{};
}

std::string Gradients::residual_layout() const { return quantizer_ ? quantizer_->residual_layout() : std::string(); }

}  // namespace shoal::zero
