// SPDX-License-Identifier: Apache-2.0
#include "tree_stages.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::comm {

namespace {

std::size_t largest_of(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes = std::max(bytes, message.bytes);
  return bytes;
}

}  // namespace

bool Exchange::advance() {
  const bool sent = sender_.advance();
  return receiver_.advance() && (sent || last_);
}

std::size_t slots_of_direct_reduce(int peers) {
  return peers == 1 ? 0 : static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(peers)));
}

DirectReduce::Slots::Slots(Span<std::byte> memory, std::size_t length) {
  for (; memory.size() >= length; memory = memory.subspan(length)) free_.push_back(memory.first(length));
}

Span<std::byte> DirectReduce::Slots::take() {
  require(!free_.empty(), "no slot is free for a message");
  const Span<std::byte> slot = free_.back();
  free_.pop_back();
  return slot;
}

DirectReduce::DirectReduce(TreeWire& tree, DType type, const std::vector<int>& peers, std::size_t own,
                           const std::vector<Spans>& blocks)
    : tree_(tree),
      type_(type),
      peers_(peers),
      own_(own),
      messages_(cut_into_messages(blocks[own])),
      sender_(tree.wire, tree.tag, tree.to_send),
      slots_(tree.memory_to_receive, round_up(std::max(largest_of(messages_), line), line)),
      most_arriving_(slots_.free() - slots_of_direct_reduce(static_cast<int>(peers.size()))) {
  std::vector<std::vector<Message>> theirs;
  for (const Spans& block : blocks) theirs.push_back(cut_into_messages(block));
  deal(own_, theirs, [&](std::size_t other, const Message& message) { sender_.add(peers_[other], message); });
}

bool DirectReduce::advance() {
  sender_.advance();
  do {
    post();
  } while (add_next());
  return adding_.message == messages_.size();
}

void DirectReduce::post() {
  for (; posting_.message < messages_.size() && arriving_.size() < most_arriving_; posting_.advance(peers_.size())) {
    if (posting_.peer == own_) continue;
    const Span<std::byte> slot = slots_.take();
    const Span<std::byte> data = slot.first(messages_[posting_.message].bytes);
    arriving_.push_back({slot, tree_.wire.receive(data, peers_[posting_.peer], tree_.tag)});
  }
}

bool DirectReduce::add_next() {
  if (adding_.message == messages_.size()) return false;
  const Message& message = messages_[adding_.message];
  if (adding_.peer == own_) {
    sums_.push_back(slots_.take());
    pack(message, sums_.back());
  } else {
    if (!arriving_.front().request.test()) return false;
    sums_.push_back(arriving_.front().slot);
    arriving_.pop_front();
  }
  const bool last = adding_.peer + 1 == peers_.size();
  const int merges = last ? static_cast<int>(sums_.size()) - 1 : std::countr_one(adding_.peer);
  for (int i = 0; i < merges; ++i) {
    const Span<std::byte> top = sums_.back();
    sums_.pop_back();
    kernels::add(type_, message.bytes / size_of(type_), top.data(), sums_.back().data());
    slots_.give_back(top);
  }
  if (last) {
    unpack(sums_.back(), message);
    slots_.give_back(sums_.back());
    sums_.pop_back();
  }
  adding_.advance(peers_.size());
  return true;
}

}  // namespace shoal::comm
