// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/rank_clock.hpp"

#include <algorithm>

#include "plan/time/sequences.hpp"

namespace shoal::plan {

Sent& Sent::operator+=(const Sent& other) {
  for (std::size_t kind = 0; kind < of.size(); ++kind) {
    of[kind].intra += other.of[kind].intra;
    of[kind].inter += other.of[kind].inter;
  }
  return *this;
}

Bytes Sent::total() const {
  Bytes sum;
  for (const Bytes& bytes : of) {
    sum.intra += bytes.intra;
    sum.inter += bytes.inter;
  }
  return sum;
}

void add_sent(std::vector<Sent>& sent, OperationKind operation, const Cost& cost, std::size_t first, double weight) {
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    Bytes& bytes = sent[rank][operation];
    bytes.intra += weight * static_cast<double>(cost.sent[first + rank].intra);
    bytes.inter += weight * static_cast<double>(cost.sent[first + rank].inter);
  }
}

RankClock::RankClock(int ranks, int first)
    : sequences_(std::make_unique<Sequences>()),
      first_(static_cast<std::size_t>(first)),
      sent_(static_cast<std::size_t>(ranks)) {}
RankClock::~RankClock() = default;

void RankClock::set_weight(double weight) {
  elapsed_s_ = elapsed_s();
  since_s_ = now_s_;
  weight_ = weight;
}

void RankClock::work(double seconds) {
  now_s_ += seconds;
  if (listener_ != nullptr) listener_->computes(seconds);
}

RankClock::Pending RankClock::start(OperationKind operation, const Cost& cost) {
  if (listener_ != nullptr) listener_->starts(operations_, operation, cost, operations_);
  return begin(operation, cost, {});
}

RankClock::Pending RankClock::start_after(const Pending& after, OperationKind operation, const Cost& cost) {
  if (listener_ != nullptr) listener_->starts(operations_, operation, cost, after.number);
  return begin(operation, cost, after.number);
}

/// Without sequences the links serve operations in the order in which they were started, and so one after the one that it
/// waits for.
RankClock::Pending RankClock::begin(OperationKind operation, const Cost& cost, std::optional<std::size_t> after) {
  const std::size_t number = operations_++;
  communication_s_ += weight_ * cost.total_s();
  if (weight_ > 0) add_sent(sent_, operation, cost, first_, weight_);
  now_s_ += cost.before_s;
  if (cost.sequence != Sequence::none) {
    sequences_->start(number, cost, now_s_, after.value_or(number));
    return {{}, cost.after_s, number};
  }
  if (cost.node_first) {
    const double in_node = use(node_free_s_, now_s_, cost.node_s) + cost.between_s;
    return {use(across_free_s_, in_node, cost.across_s), cost.after_s, number};
  }
  const double crossed = use(across_free_s_, now_s_, cost.across_s) + cost.between_s;
  return {use(node_free_s_, crossed, cost.node_s), cost.after_s, number};
}

void RankClock::wait(const Pending& pending) {
  now_s_ = std::max(now_s_, pending.arrives_s ? *pending.arrives_s : sequences_->end_of(pending.number));
  now_s_ += pending.after_s;
  if (listener_ != nullptr) listener_->waits(pending.number);
}

double RankClock::use(double& link_free_s, double from_s, double seconds) {
  if (seconds == 0) return from_s;
  link_free_s = std::max(link_free_s, from_s) + seconds;
  return link_free_s;
}

}  // namespace shoal::plan
