// SPDX-License-Identifier: Apache-2.0
// When a rank starts its messages and when it waits for them, as data. parameters.cpp and gradients.cpp execute these calls,
// and step_schedule.hpp makes the schedule of a whole step of them. Nothing here knows memory, communicators or time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::zero {

/// The most messages of one kind that are in flight at the same time. Each has scratch memory of its own, and the next one
/// waits for the oldest.
inline constexpr std::size_t messages_in_flight = 2;

/// A rank starts a message, or waits until it has ended. It waits for messages of a kind in the order in which they started.
struct Call {
  enum class Kind : std::uint8_t { start, wait };
  Kind kind = Kind::start;
  std::size_t message = 0;  ///< its number among those of its kind
  bool operator==(const Call&) const = default;
};
using Calls = std::vector<Call>;

/// Messages that follow each other: after each that has ended, the next one is started. Nothing is in flight at first.
class MessageSeries {
 public:
  explicit MessageSeries(std::size_t messages) : messages_(messages), started_(messages), ended_(messages) {}

  /// Starts the first messages. All those of the last time must have ended.
  Calls start() {
    started_ = std::min(messages_in_flight, messages_);
    ended_ = 0;
    Calls calls;
    for (std::size_t k = 0; k < started_; ++k) calls.push_back({Call::Kind::start, k});
    return calls;
  }
  /// Waits until the first `messages` of them have ended. Nothing is left to do if they were never started.
  Calls wait_for(std::size_t messages) {
    Calls calls;
    for (; ended_ < messages; ++ended_) {
      calls.push_back({Call::Kind::wait, ended_});
      if (started_ < messages_) calls.push_back({Call::Kind::start, started_++});
    }
    return calls;
  }
  Calls wait_for_all() { return wait_for(messages_); }
  bool all_ended() const { return ended_ == messages_; }

 private:
  std::size_t messages_, started_, ended_;
};

}  // namespace shoal::zero
