// SPDX-License-Identifier: Apache-2.0
// Bytes from each rank of a group to each other one.
#pragma once

#include <utility>
#include <vector>

#include "messages.hpp"

namespace shoal::comm {

/// Regions of memory that are sent and received as they lie; an empty one is no message.
///
/// [Note: no message waits for another] On all ranks the i-th region that is added to send goes to the i-th neighbour above,
/// and the i-th to receive comes from the i-th below, i = 1, 2, ... So of the messages that have not arrived the first is
/// the next one on both of its ranks, however few are under way at a time.
class AllToAll {
 public:
  explicit AllToAll(Communicator& group)
      : rank_(static_cast<std::size_t>(group.rank())),
        size_(static_cast<std::size_t>(group.size())),
        tag_(group.next_tag()),
        none_({}, 0, 0),
        sender_(group.wire(), tag_, none_),
        receiver_(group.wire(), tag_, none_, {}) {}
  AllToAll(const AllToAll&) = delete;
  AllToAll& operator=(const AllToAll&) = delete;

  std::size_t above(std::size_t i) const { return (rank_ + i) % size_; }
  std::size_t below(std::size_t i) const { return (rank_ + size_ - i) % size_; }

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
  std::size_t rank_, size_;
  int tag_;
  Slots none_;  // nothing is packed
  Sender sender_;
  Receiver receiver_;
};

}  // namespace shoal::comm
