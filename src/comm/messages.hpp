// SPDX-License-Identifier: Apache-2.0
// Lists of spans as messages between two ranks. How they are cut depends on the spans' sizes alone, which are the same on
// both ranks; where they lie, and so whether a message must be packed, is each rank's own affair.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// The largest message (512 KiB): small enough to be added while it is still in a cache, and for the next to be on
/// its way meanwhile; large enough for the network's full rate.
inline constexpr std::size_t largest_message_bytes = std::size_t{1} << 19U;
/// Of a cache: where messages that are put aside begin.
inline constexpr std::size_t cache_line = 64;

struct Message {
  std::vector<Span<std::byte>> spans;  ///< neighbours in memory are one piece
  std::size_t bytes = 0;
  bool packed() const { return spans.size() > 1; }
};

/// The spans one after another: large ones cut, small ones joined.
std::vector<Message> cut_into_messages(const std::vector<Span<std::byte>>& spans,
                                       std::size_t largest = largest_message_bytes);

/// A message in one piece of memory, and back.
void pack(const Message& message, Span<std::byte> slot);
void unpack(Span<const std::byte> slot, const Message& message);

/// The order in which a rank turns to the others of a group, by their places in it: in round i = 1, 2, ... those exchange
/// whose places' bits differ as i has it. In some rounds a rank has no partner, where the group is no power of two.
///
/// [Note: no message waits for another] Partners come in the same round to each other: of the messages that have not arrived
/// the first is the next one on both of its ranks, so none waits for another, however few are under way at a time. And both
/// consent to the other's before they send much ([Note: consents before data]); where one had sent first, the other's
/// messages would wait until all of the first one's were there.
std::vector<std::size_t> partners_in_order(std::size_t own, std::size_t size);

/// Memory for messages. They may come back in any order (stages of one operation share it, and one's last message may be
/// sent after another's first), but room comes free in the order in which it was taken.
class RingBuffer {
 public:
  explicit RingBuffer(Span<std::byte> memory) : memory_(memory) {}
  /// Memory in one piece; none: there is no room yet.
  std::optional<Span<std::byte>> take(std::size_t bytes);
  void give_back(Span<std::byte> taken);

 private:
  struct Region {
    std::size_t begin;
    bool in_use;
  };
  Span<std::byte> memory_;
  std::deque<Region> regions_;  // the first one is out
  std::size_t end_ = 0;         // of what was taken last
};

/// Sends messages to one or several ranks, some at a time.
class Sender {
 public:
  Sender(Communicator& wire, int tag, RingBuffer& ring) : wire_(&wire), tag_(tag), ring_(&ring) {}
  void add(int to, Message message) { waiting_.push_back({to, std::move(message), {}, {}}); }
  /// Moves on without waiting; true when everything is sent.
  bool advance();

 private:
  struct Item {
    int to;
    Message message;
    Span<std::byte> packed;  // empty: sent from where it lies
    Request request;
  };
  Communicator* wire_;
  int tag_;
  RingBuffer* ring_;
  std::deque<Item> waiting_, sending_;
};

/// Receives messages from one or several ranks, some at a time, and adds them, as numbers of the type given, to what is
/// there, or stores them, in order.
class Receiver {
 public:
  Receiver(Communicator& wire, int tag, RingBuffer& ring, std::optional<DType> add_as)
      : wire_(&wire), tag_(tag), ring_(&ring), add_as_(add_as) {}
  void add(int from, Message message) { waiting_.push_back({from, std::move(message), {}, {}}); }
  /// Moves on without waiting; true when everything has arrived.
  bool advance();

 private:
  struct Item {
    int from;
    Message message;
    Span<std::byte> staging;  // where it arrives to be added or unpacked; empty: where it belongs
    Request request;
  };
  Communicator* wire_;
  int tag_;
  RingBuffer* ring_;
  std::optional<DType> add_as_;
  std::deque<Item> waiting_, receiving_;
};

}  // namespace shoal::comm
