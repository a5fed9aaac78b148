// SPDX-License-Identifier: Apache-2.0
// Sends bytes from each rank of a group to each other rank.
#pragma once

#include <utility>
#include <vector>

#include "comm/operations/messages.hpp"

namespace shoal::comm {

/// Regions of memory are sent and received in place, without packing. An empty region sends no message. On a queued group
/// all regions are one Communicator::exchange(), which the first call of finish() enqueues on the queue that is current
/// then.
class AllToAll {
 public:
  explicit AllToAll(Communicator& group)
      : partners_(partners_in_order(static_cast<std::size_t>(group.rank()), static_cast<std::size_t>(group.size()))),
        wire_(&group.wire()),
        queued_(group.queued()),
        tag_(group.next_tag()),
        no_memory_({}),
        sender_(*wire_, tag_, no_memory_),
        receiver_(*wire_, tag_, no_memory_, {}) {}
  AllToAll(const AllToAll&) = delete;
  AllToAll& operator=(const AllToAll&) = delete;

  const std::vector<std::size_t>& partners() const { return partners_; }

  /// Adds the exchange with the next one of partners(). `out` must be ready; on a queued group it must be so when finish()
  /// is called. The receive is posted only now, together with the send. Posted earlier, it would allow the partner to send
  /// before this rank has anything to send, and the two directions of the link would be used one after the other ([Note:
  /// both directions at once] in tree_reduce.cpp).
  void exchange(std::size_t with, Span<std::byte> out, Span<std::byte> in) {
    if (queued_) {
      outgoing_.push_back({static_cast<int>(with), out});
      incoming_.push_back({static_cast<int>(with), in});
      return;
    }
    for (Message& message : cut_into_messages({out})) sender_.add(static_cast<int>(with), std::move(message));
    for (Message& message : cut_into_messages({in})) receiver_.add(static_cast<int>(with), std::move(message));
  }
  /// Advances the exchanges that were added so far, without waiting. Nothing to do on a queued group.
  void advance() {
    if (!queued_) post_and_test();
  }
  /// Called when all exchanges are added, until it returns true: then they are complete. Does not wait.
  bool finish() {
    if (!queued_) return post_and_test();
    if (partners_.empty()) return true;
    if (!std::exchange(enqueued_, true)) request_ = wire_->exchange(outgoing_, incoming_, tag_);
    return request_.test();
  }

 private:
  bool post_and_test() {
    const bool sent = sender_.advance();
    return receiver_.advance() && sent;
  }

  std::vector<std::size_t> partners_;
  Communicator* wire_;
  bool queued_;
  int tag_;
  RingBuffer no_memory_;  // empty: nothing is packed
  Sender sender_;
  Receiver receiver_;
  // On a queued group:
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  bool enqueued_ = false;
  Request request_;
};

}  // namespace shoal::comm
