// SPDX-License-Identifier: Apache-2.0
// Sends bytes from each rank of a group to each other rank.
#pragma once

#include <utility>
#include <vector>

#include "messages.hpp"

namespace shoal::comm {

/// Regions of memory are sent and received in place, without packing. An empty region sends no message.
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

  /// Queues the exchange with the next one of partners(); `out` must be ready. The receive is posted only now, together with
  /// the send. Posted earlier, it would allow the partner to send before this rank has anything to send, and the two
  /// directions of the link would be used one after the other ([Note: both directions at once] in tree_reduce.cpp).
  void exchange(std::size_t with, Span<std::byte> out, Span<std::byte> in) {
    for (Message& message : cut_into_messages({out})) sender_.add(static_cast<int>(with), std::move(message));
    for (Message& message : cut_into_messages({in})) receiver_.add(static_cast<int>(with), std::move(message));
  }
  /// Advances without waiting. Returns true if all queued exchanges are complete.
  bool advance() {
    const bool sent = sender_.advance();
    return receiver_.advance() && sent;
  }

 private:
  std::vector<std::size_t> partners_;
  int tag_;
  RingBuffer no_memory_;  // empty: nothing is packed
  Sender sender_;
  Receiver receiver_;
};

}  // namespace shoal::comm
