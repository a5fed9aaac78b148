// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <algorithm>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/kernels/pointwise.hpp"

namespace shoal::comm {

namespace {

/// Pieces of fewer elements (64 KiB) are cheaper to copy than to send as a message each.
constexpr std::size_t worth_a_message = std::size_t{1} << 14U;
/// Messages on their way at a time that lie in no slot.
constexpr std::size_t most_under_way = 16;

void add_to(Span<const float> slot, const Message& message) {
  for (const Span<float> piece : message.pieces) {
    kernels::add(piece.size(), slot.data(), piece.data());
    slot = slot.subspan(piece.size());
  }
}

void append(Message& message, Span<float> piece) {
  message.elements += piece.size();
  if (!message.pieces.empty()) {
    Span<float>& last = message.pieces.back();
    if (last.data() + last.size() == piece.data()) {
      last = {last.data(), last.size() + piece.size()};
      return;
    }
  }
  message.pieces.push_back(piece);
}

}  // namespace

void pack(const Message& message, Span<float> slot) {
  for (const Span<float> piece : message.pieces) {
    kernels::copy_bytes(piece.size_bytes(), piece.data(), slot.data());
    slot = slot.subspan(piece.size());
  }
}

void unpack(Span<const float> slot, const Message& message) {
  for (const Span<float> piece : message.pieces) {
    kernels::copy_bytes(piece.size_bytes(), slot.data(), piece.data());
    slot = slot.subspan(piece.size());
  }
}

std::vector<Message> cut_into_messages(const std::vector<Span<float>>& spans) {
  std::vector<Message> messages;
  bool joining = false;  // the last message takes further small pieces
  for (const Span<float> span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += largest_message_elements) {
      const Span<float> piece = span.subspan(begin, std::min(largest_message_elements, span.size() - begin));
      const bool small = piece.size() < worth_a_message;
      if (!small || !joining || messages.back().elements + piece.size() > largest_message_elements) messages.emplace_back();
      append(messages.back(), piece);
      joining = small;
    }
  }
  return messages;
}

Slots::Slots(Span<float> scratch, std::size_t count) {
  const std::size_t length = scratch.size() / count;
  for (std::size_t i = 0; i < count; ++i) free_.push_back(scratch.subspan(i * length, length));
}

Span<float> Slots::take() {
  require(!free_.empty(), "no slot is free for a message");
  const Span<float> slot = free_.back();
  free_.pop_back();
  return slot;
}

bool Sender::advance() {
  while (!sending_.empty() && sending_.front().request.test()) {
    if (sending_.front().message.packed()) slots_->give_back(sending_.front().slot);
    sending_.pop_front();
  }
  while (!waiting_.empty() && sending_.size() < most_under_way) {
    Item& item = waiting_.front();
    Span<const float> data;
    if (item.message.packed()) {
      if (slots_->free() == 0) break;
      item.slot = slots_->take();
      pack(item.message, item.slot);
      data = item.slot.first(item.message.elements);
    } else {
      data = item.message.pieces.front();
    }
    item.request = wire_->send(const_bytes_of(data), item.to, tag_);
    sending_.push_back(std::move(item));
    waiting_.pop_front();
  }
  return waiting_.empty() && sending_.empty();
}

bool Receiver::advance() {
  while (!receiving_.empty() && receiving_.front().request.test()) {
    const Item item = std::move(receiving_.front());
    receiving_.pop_front();
    if (item.slot.empty()) continue;
    const Span<const float> arrived = item.slot.first(item.message.elements);
    then_ == Then::add ? add_to(arrived, item.message) : unpack(arrived, item.message);
    slots_->give_back(item.slot);
  }
  while (!waiting_.empty() && receiving_.size() < most_under_way) {
    Item& item = waiting_.front();
    Span<float> data;
    if (then_ == Then::store && !item.message.packed()) {
      data = item.message.pieces.front();
    } else {
      if (slots_->free() == 0) break;
      item.slot = slots_->take();
      data = item.slot.first(item.message.elements);
    }
    item.request = wire_->receive(bytes_of(data), item.from, tag_);
    receiving_.push_back(std::move(item));
    waiting_.pop_front();
  }
  return waiting_.empty() && receiving_.empty();
}

}  // namespace shoal::comm
