// SPDX-License-Identifier: Apache-2.0
// Bytes from each rank of a group to each other one.
#pragma once

#include <utility>
#include <vector>

#include "messages.hpp"

namespace shoal::comm {

/// Regions of memory that are sent and received as they lie; an empty one is no message. The i-th that is added to send goes
/// to the i-th neighbour above, and the i-th to receive comes from the i-th below ([Note: no message waits for another]).
class AllToAll {
 public:
  explicit AllToAll(Communicator& group)
      : circle_{static_cast<std::size_t>(group.rank()), static_cast<std::size_t>(group.size())},
        tag_(group.next_tag()),
        none_({}),
        sender_(group.wire(), tag_, none_),
        receiver_(group.wire(), tag_, none_, {}) {}
  AllToAll(const AllToAll&) = delete;
  AllToAll& operator=(const AllToAll&) = delete;

  std::size_t above(std::size_t i) const { return circle_.above(i); }
  std::size_t below(std::size_t i) const { return circle_.below(i); }

  void send(std::size_t to, Span<std::byte> region) {
    for (Message& message : cut_into_messages({region})) sender_.add(static_cast<int>(to), std::move(message));
  }
  void receive(std::size_t from, Span<std::byte> region) {
    for (Message& message : cut_into_messages({region})) receiver_.add(static_cast<int>(from), std::move(message));
  }
  /// Moves on without waiting; true when all that was added has been sent and received.
  bool advance() {
    const bool sent = sender_.advance();
    return receiver_.advance() && sent;
  }

 private:
  Circle circle_;
  int tag_;
  Ring none_;  // nothing is packed
  Sender sender_;
  Receiver receiver_;
};

}  // namespace shoal::comm
