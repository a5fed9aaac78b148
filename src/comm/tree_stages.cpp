// SPDX-License-Identifier: Apache-2.0
#include "tree_stages.hpp"

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

DirectReduce::DirectReduce(TreeWire& tree, DType type, std::vector<int> peers, std::size_t own,
                           std::vector<Message> messages, bool last)
    : TreeStage(tree, last), tree_(tree), type_(type), peers_(std::move(peers)), own_(own), messages_(std::move(messages)) {}

Span<std::byte> DirectReduce::slot(std::size_t message, std::size_t place) const {
  const std::size_t length = round_up(largest_of(messages_), line);
  return tree_.memory_to_receive.subspan((message * peers_.size() + place) * length, messages_[message].bytes);
}

bool DirectReduce::received() {
  if (arriving_.empty()) post();
  while (add_next()) continue;
  return added_ == arriving_.size();
}

void DirectReduce::post() {
  arriving_.resize(messages_.size() * peers_.size());
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    for (const std::size_t place : partners_in_order(own_, peers_.size())) {
      arriving_[m * peers_.size() + place] = tree_.wire.receive(slot(m, place), peers_[place], tree_.tag);
    }
  }
}

bool DirectReduce::add_next() {
  if (added_ == arriving_.size() || !arriving_[added_].test()) return false;
  const std::size_t place = added_ % peers_.size(), number = added_ / peers_.size();
  const Message& message = messages_[number];
  sums_.push_back(slot(number, place));
  if (place == own_) pack(message, sums_.back());
  const bool last = place + 1 == peers_.size();
  const int merges = last ? static_cast<int>(sums_.size()) - 1 : std::countr_one(place);
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
