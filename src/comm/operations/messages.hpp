// SPDX-License-Identifier: Apache-2.0
// Sends lists of spans as messages between two ranks. How they are cut into messages depends only on the spans' sizes, which
// are the same on both ranks. Their addresses may differ, so a message may need packing on one rank and not on the other.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// Size of the largest message, 512 KiB: small enough to be added while it is in a cache and the next one is in flight;
/// large enough for the network's full rate.
inline constexpr std::size_t largest_message_bytes = std::size_t{1} << 19U;
/// Messages in a buffer begin at multiples of this.
inline constexpr std::size_t cache_line = 64;

struct Message {
  std::vector<Span<std::byte>> spans;  ///< adjacent ones are joined
  std::size_t bytes = 0;
  bool packed() const { return spans.size() > 1; }
};

/// Cuts the spans, in order, into messages: large spans are cut, small ones are put into one message.
std::vector<Message> cut_into_messages(const std::vector<Span<std::byte>>& spans,
                                       std::size_t largest = largest_message_bytes);

std::size_t size_in_bytes(const std::vector<Span<std::byte>>& spans);
std::size_t size_in_bytes(const std::vector<std::vector<Span<std::byte>>>& blocks);

/// Copies a message to contiguous memory, and back.
void pack(const Message& message, Span<std::byte> slot);
void unpack(Span<const std::byte> slot, const Message& message);

/// The order in which a rank exchanges with the others of a group, by index: in round i = 1, 2, ... the partner of `own` is
/// own XOR i, if that index exists. If the size is not a power of two, a rank has no partner in some rounds.
///
/// [Note: no message waits for another] Both partners reach each other in the same round. So of all messages that have not
/// arrived, the first one is the next on both of its ranks, and messages cannot block one another, however few of them are
/// in flight at a time. Both partners also send their clear-to-send before they send data ([Note: clear-to-send before
/// data]). If one of them sent data first, the other's messages would wait until all of those had arrived.
std::vector<std::size_t> partners_in_order(std::size_t own, std::size_t size);

/// Memory for messages. They may be given back in any order (the stages of an operation use it together, and the last
/// message of one stage may be sent after the first one of the next), but memory is reused in the order in which it was
/// taken.
class RingBuffer {
 public:
  explicit RingBuffer(Span<std::byte> memory) : memory_(memory) {}
  /// Returns contiguous memory, or nothing if there is not enough yet.
  std::optional<Span<std::byte>> take(std::size_t bytes);
  void give_back(Span<std::byte> taken);

 private:
  struct Region {
    std::size_t begin;
    bool in_use;
  };
  Span<std::byte> memory_;
  std::deque<Region> regions_;  // the first one is in use
  std::size_t end_ = 0;         // end of the region that was taken last
};

/// Sends messages to one or several ranks, with a limited number in flight.
class Sender {
 public:
  Sender(Communicator& wire, int tag, RingBuffer& ring) : wire_(&wire), tag_(tag), ring_(&ring) {}
  void add(int to, Message message) { waiting_.push_back({to, std::move(message), {}, {}}); }
  /// Advances without waiting. Returns true if all messages are sent.
  bool advance();

 private:
  struct Item {
    int to;
    Message message;
    Span<std::byte> packed;  // empty if it is sent from its own place
    Request request;
  };
  Communicator* wire_;
  int tag_;
  RingBuffer* ring_;
  std::deque<Item> waiting_, sending_;
};

/// Receives messages from one or several ranks, with a limited number in flight. Adds them in order to the values at their
/// destination, as elements of type add_as, or stores them if that is empty.
class Receiver {
 public:
  Receiver(Communicator& wire, int tag, RingBuffer& ring, std::optional<DType> add_as)
      : wire_(&wire), tag_(tag), ring_(&ring), add_as_(add_as) {}
  void add(int from, Message message) { waiting_.push_back({from, std::move(message), {}, {}}); }
  /// Advances without waiting. Returns true if all messages have arrived.
  bool advance();

 private:
  struct Item {
    int from;
    Message message;
    Span<std::byte> staging;  // received here, then added or unpacked; empty if it is received at its destination
    Request request;
  };
  Communicator* wire_;
  int tag_;
  RingBuffer* ring_;
  std::optional<DType> add_as_;
  std::deque<Item> waiting_, receiving_;
};

}  // namespace shoal::comm
