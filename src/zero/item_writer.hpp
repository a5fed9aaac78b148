// SPDX-License-Identifier: Apache-2.0
// Writes the items of a schedule (zero/step_schedule.hpp) from the calls that an engine executes.
#pragma once

#include <utility>

#include "shoal/zero/step_items.hpp"
#include "zero/message_order.hpp"
#include "zero/reduction_order.hpp"

namespace shoal::zero {

/// Appends items to a list.
class ItemWriter {
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
  void exchange_copies(MessageKind message) { items_.push_back({.kind = Kind::exchange, .message = message}); }
  void compute(std::size_t part, StepItem::Pass pass, std::size_t use) {
    items_.push_back({.kind = Kind::compute, .pass = pass, .part = static_cast<std::uint16_t>(part), .number = use});
  }
  void update() { items_.push_back({.kind = Kind::update}); }

  StepItems take() { return std::move(items_); }

 private:
  StepItems items_;
};

}  // namespace shoal::zero
