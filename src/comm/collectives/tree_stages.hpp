// SPDX-License-Identifier: Apache-2.0
// The stages of the reproducible tree (comm/tree_reduce.hpp), which follow each other. All exchange messages with one tag,
// by slots of one scratch memory, and none of them blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "comm/operations/messages.hpp"
#include "shoal/comm/tree_reduce.hpp"

namespace shoal::comm {

/// The communicator, tag and memory of all stages of one operation. Since stages follow each other, each may use any part of
/// the receive memory.
struct TreeWire {
  TreeWire(Communicator& communicator, int its_tag, Span<std::byte> sending, Span<std::byte> receiving)
      : wire(communicator), tag(its_tag), send_buffer(sending), receive_memory(receiving), receive_buffer(receiving) {}

  Communicator& wire;
  int tag;
  RingBuffer send_buffer;
  Span<std::byte> receive_memory;  // a DirectReduceStage divides it in its own way
  RingBuffer receive_buffer;
};

/// When the next stage may begin: when this one has received all its messages; or when it has also sent all of them, which
/// is necessary if the next stage has the same partners.
enum class NextStage { when_received, when_also_sent };

/// A stage sends messages to some ranks, and receives others as its class defines. It begins with the first advance().
class TreeStage {
 public:
  TreeStage(TreeWire& tree, NextStage next) : sender_(tree.wire, tree.tag, tree.send_buffer), next_(next) {}
  virtual ~TreeStage() = default;
  TreeStage(const TreeStage&) = delete;
  TreeStage& operator=(const TreeStage&) = delete;

  void send(int to, Message message) { sender_.add(to, std::move(message)); }
  /// Advances without waiting. Returns true if the next stage may begin. That stage does not change data that this one is
  /// still sending.
  bool advance() {
    const bool all_sent = continue_sending();
    return continue_receiving() && (all_sent || next_ == NextStage::when_received);
  }
  /// Returns true if everything is sent.
  bool continue_sending() { return sender_.advance(); }

 private:
  /// Returns true if everything has arrived, and was added or stored at its destination.
  virtual bool continue_receiving() = 0;

  Sender sender_;
  NextStage next_;
};

/// Received values are added to those at their destination (as elements of type sum_as), or stored.
class ExchangeStage : public TreeStage {
 public:
  ExchangeStage(TreeWire& tree, std::optional<DType> sum_as, NextStage next)
      : TreeStage(tree, next), receiver_(tree.wire, tree.tag, tree.receive_buffer, sum_as) {}
  void receive(int from, Message message) { receiver_.add(from, std::move(message)); }

 private:
  bool continue_receiving() override { return receiver_.advance(); }

  Receiver receiver_;
};

/// Each of the ranks `peers` (ascending, with this one) sends its messages of every other peer's block to that peer. A rank
/// adds what it receives in a binary tree over the indices in `peers`, like a binary counter: after term p, sums are merged
/// as often as p has trailing one bits. There is memory for all messages, so they may arrive in any order.
class DirectReduceStage : public TreeStage {
 public:
  /// own_index: this rank's index in peers. messages: its own terms, which the sums replace.
  DirectReduceStage(TreeWire& tree, DType type, std::vector<int> peers, std::size_t own_index, std::vector<Message> messages,
                    NextStage next);

 private:
  bool continue_receiving() override;
  Span<std::byte> slot(std::size_t message, std::size_t peer) const;
  void post_receives();
  bool add_next();

  TreeWire& tree_;
  DType type_;
  std::vector<int> peers_;
  std::size_t own_index_;
  std::vector<Message> messages_;
  std::vector<Request> receives_;      // [message][peer]; empty before the first advance()
  std::size_t added_ = 0;              // number of terms added so far, in this order
  std::vector<Span<std::byte>> sums_;  // partial sums of the message that is being added
};

/// Send memory of an operation, in largest messages. Only packed messages are sent from it.
inline constexpr std::size_t slots_to_send = 4;
/// Receive memory, likewise. It limits a batch of an exchange between nodes ([Note: both directions at once] in
/// tree_reduce.cpp). With 16 slots (8 MiB) the pause between batches is negligible; memory proportional to the units would
/// be too much.
inline constexpr std::size_t fewest_slots_to_receive = 4, most_slots_to_receive = 16;

/// Calls act(peer, message) for all messages of the other peers: the first message of each peer, in the order of partners
/// ([Note: no message waits for another]), then the second of each, and so on.
template <typename Item, typename Act>
void for_each_message(std::size_t own_index, const std::vector<std::vector<Item>>& by_peer, const Act& act) {
  const std::vector<std::size_t> partners = partners_in_order(own_index, by_peer.size());
  std::size_t longest = 0;
  for (const auto& messages : by_peer) longest = std::max(longest, messages.size());
  for (std::size_t m = 0; m < longest; ++m) {
    for (const std::size_t other : partners) {
      if (m < by_peer[other].size()) act(other, by_peer[other][m]);
    }
  }
}

}  // namespace shoal::comm
