// SPDX-License-Identifier: Apache-2.0
// Bytes from each rank of a group to each other one.
#pragma once

#include <utility>
#include <vector>

#include "messages.hpp"

namespace shoal::comm {

/// Regions of memory that are sent and received as they lie; an empty one is no message.
class AllToAll {
 public:
  explicit AllToAll(Communicator& group)
      : partners_(partners_in_order(static_cast<std::size_t>(group.rank()), static_cast<std::size_t>(group.size()))),
        tag_(group.next_tag()),
        no_memory_({}),
        sender_(group.wire(), tag_, no_memory_),
        receiver_(group.wire(), tag_, no_memory_, {}) {}
  AllToAll(const AllToAll&) = delete;
  AllToAll& operator=(const AllToAll&) = delete;

  const std::vector<std::size_t>& partners() const { return partners_; }

  /// The next of partners(): what it gets must be there. Only then is there consent to what it sends, which would otherwise
  /// be on its way before it can consent in turn ([Note: both ways at once] in tree_reduce.cpp).
  void exchange(std::size_t with, Span<std::byte> out, Span<std::byte> in) {
    for (Message& message : cut_into_messages({out})) sender_.add(static_cast<int>(with), std::move(message));
    for (Message& message : cut_into_messages({in})) receiver_.add(static_cast<int>(with), std::move(message));
  }
  /// Moves on without waiting; true when all that was added has been sent and received.
  bool advance() {
    const bool sent = sender_.advance();
    return receiver_.advance() && sent;
  }

 private:
  std::vector<std::size_t> partners_;
  int tag_;
  RingBuffer no_memory_;  // nothing is packed
  Sender sender_;
  Receiver receiver_;
};

}  // namespace shoal::comm
