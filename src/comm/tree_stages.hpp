// SPDX-License-Identifier: Apache-2.0
// What the reproducible tree (comm/tree_reduce.hpp) is made of: stages that follow each other. All of them exchange messages
// under one tag with slots of one scratch memory, and none waits.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "messages.hpp"
#include "shoal/comm/tree_reduce.hpp"

namespace shoal::comm {

/// What every stage of one operation communicates with. Stages follow each other, so what one puts aside of what it
/// receives may lie anywhere in the memory for it.
struct TreeWire {
  TreeWire(Communicator& communicator, int its_tag, Span<std::byte> sending, Span<std::byte> receiving)
      : wire(communicator), tag(its_tag), send_buffer(sending), receive_memory(receiving), receive_buffer(receiving) {}

  Communicator& wire;
  int tag;
  RingBuffer send_buffer;
  Span<std::byte> receive_memory;  // a DirectReduceStage divides it in its own way
  RingBuffer receive_buffer;
};

/// Sends messages to some ranks, and receives others in a way of its own. Begins with the first advance(). Unless it is the
/// last with its partners, the next may begin only when this one has sent everything, too.
enum class NextStage { when_received, when_also_sent };

class TreeStage {
 public:
  TreeStage(TreeWire& tree, NextStage next) : sender_(tree.wire, tree.tag, tree.send_buffer), next_(next) {}
  virtual ~TreeStage() = default;
  TreeStage(const TreeStage&) = delete;
  TreeStage& operator=(const TreeStage&) = delete;

  void send(int to, Message message) { sender_.add(to, std::move(message)); }
  /// Moves on without waiting; true when what this rank receives is there, so that the next stage may begin: it changes
  /// nothing that this one still sends.
  bool advance() {
    const bool all_sent = continue_sending();
    return continue_receiving() && (all_sent || next_ == NextStage::when_received);
  }
  /// Goes on sending; true when everything is sent.
  bool continue_sending() { return sender_.advance(); }

 private:
  /// Goes on receiving; true when everything has arrived and is where it belongs.
  virtual bool continue_receiving() = 0;

  Sender sender_;
  NextStage next_;
};

/// What is received is added to what is there (as numbers of sum_as), or stored.
class ExchangeStage : public TreeStage {
 public:
  ExchangeStage(TreeWire& tree, std::optional<DType> sum_as, NextStage next)
      : TreeStage(tree, next), receiver_(tree.wire, tree.tag, tree.receive_buffer, sum_as) {}
  void receive(int from, Message message) { receiver_.add(from, std::move(message)); }

 private:
  bool continue_receiving() override { return receiver_.advance(); }

  Receiver receiver_;
};

/// Each of the ranks `peers` (ascending, this one among them) sends some messages of its block to every other one, which
/// adds what it gets in a pairwise tree over the peers' places in the list, as a binary counter does: after place p as many
/// sums are merged as p ends with ones. There is room for all that arrives, so it may in any order.
class DirectReduceStage : public TreeStage {
 public:
  /// own: this rank's place; messages: what it has of its own sums, where they will be.
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
  std::vector<Request> receives_;      // [message][place]; empty: nothing has begun
  std::size_t added_ = 0;              // of these, in this order
  std::vector<Span<std::byte>> sums_;  // of the message at which the adding is
};

/// Memory of an operation, in largest messages. Only what must be packed is sent from there.
inline constexpr std::size_t slots_to_send = 4;
/// What is received before it is added: a turn of an exchange between nodes ([Note: both ways at once] in tree_reduce.cpp).
/// In 8 MiB the wait between turns is lost, and memory that grows with the units would be too much.
inline constexpr std::size_t fewest_slots_to_receive = 4, most_slots_to_receive = 16;

/// Every message of every other place, messages first, in the order of partners ([Note: no message waits for another]).
/// add(place, message).
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
