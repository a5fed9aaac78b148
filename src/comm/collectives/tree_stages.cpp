// SPDX-License-Identifier: Apache-2.0
#include "comm/collectives/tree_stages.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "shoal/kernels/storage.hpp"

namespace shoal::comm {

namespace {

std::size_t largest_of(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes = std::max(bytes, message.bytes);
  return bytes;
}

}  // namespace

DirectReduceStage::DirectReduceStage(TreeWire& tree, DType type, std::vector<int> peers, std::size_t own_index,
                                     std::vector<Message> messages, NextStage next)
    : TreeStage(tree, next),
      tree_(tree),
      type_(type),
      peers_(std::move(peers)),
      own_index_(own_index),
      messages_(std::move(messages)) {}

Span<std::byte> DirectReduceStage::slot(std::size_t message, std::size_t peer) const {
  const std::size_t length = round_up(largest_of(messages_), cache_line);
  return tree_.receive_memory.subspan((message * peers_.size() + peer) * length, messages_[message].bytes);
}

bool DirectReduceStage::continue_receiving() {
  if (receives_.empty()) post_receives();
  while (add_next()) continue;
  return added_ == receives_.size();
}

void DirectReduceStage::post_receives() {
  receives_.resize(messages_.size() * peers_.size());
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    for (const std::size_t peer : partners_in_order(own_index_, peers_.size())) {
      receives_[m * peers_.size() + peer] = tree_.wire.receive(slot(m, peer), peers_[peer], tree_.tag);
    }
  }
}

bool DirectReduceStage::add_next() {
  if (added_ == receives_.size() || !receives_[added_].test()) return false;
  const std::size_t peer = added_ % peers_.size(), number = added_ / peers_.size();
  const Message& message = messages_[number];
  sums_.push_back(slot(number, peer));
  if (peer == own_index_) pack(message, sums_.back());
  const bool last = peer + 1 == peers_.size();
  const int merges = last ? static_cast<int>(sums_.size()) - 1 : std::countr_one(peer);
  for (int i = 0; i < merges; ++i) {
    const Span<std::byte> top = sums_.back();
    sums_.pop_back();
    kernels::add(type_, message.bytes / size_of(type_), top.data(), sums_.back().data());
  }
  if (last) {
    unpack(sums_.back(), message);
    sums_.pop_back();
  }
  ++added_;
  return true;
}

}  // namespace shoal::comm
