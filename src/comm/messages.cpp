// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <algorithm>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/kernels/pointwise.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::comm {

namespace {

/// Pieces of fewer bytes are cheaper to copy than to send as a message each.
constexpr std::size_t worth_a_message = std::size_t{1} << 16U;
/// Messages on their way at a time that lie in no slot.
constexpr std::size_t most_under_way = 64;

void add_to(Span<const std::byte> slot, const Message& message, DType type) {
  for (const Span<std::byte> piece : message.pieces) {
    kernels::add(type, piece.size() / size_of(type), slot.data(), piece.data());
    slot = slot.subspan(piece.size());
  }
}

void append(Message& message, Span<std::byte> piece) {
  message.bytes += piece.size();
  if (!message.pieces.empty()) {
    Span<std::byte>& last = message.pieces.back();
    if (last.data() + last.size() == piece.data()) {
      last = {last.data(), last.size() + piece.size()};
      return;
    }
  }
  message.pieces.push_back(piece);
}

}  // namespace

void pack(const Message& message, Span<std::byte> slot) {
  for (const Span<std::byte> piece : message.pieces) {
    kernels::copy_bytes(piece.size(), piece.data(), slot.data());
    slot = slot.subspan(piece.size());
  }
}

void unpack(Span<const std::byte> slot, const Message& message) {
  for (const Span<std::byte> piece : message.pieces) {
    kernels::copy_bytes(piece.size(), slot.data(), piece.data());
    slot = slot.subspan(piece.size());
  }
}

std::vector<Message> cut_into_messages(const std::vector<Span<std::byte>>& spans) {
  std::vector<Message> messages;
  bool joining = false;  // the last message takes further small pieces
  for (const Span<std::byte> span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += largest_message_bytes) {
      const Span<std::byte> piece = span.subspan(begin, std::min(largest_message_bytes, span.size() - begin));
      const bool small = piece.size() < worth_a_message;
      if (!small || !joining || messages.back().bytes + piece.size() > largest_message_bytes) messages.emplace_back();
      append(messages.back(), piece);
      joining = small;
    }
  }
  return messages;
}

Slots::Slots(Span<std::byte> scratch, std::size_t count, std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) free_.push_back(scratch.subspan(i * length, length));
}

Span<std::byte> Slots::take() {
  require(!free_.empty(), "no slot is free for a message");
  const Span<std::byte> slot = free_.back();
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
    Span<const std::byte> data;
    if (item.message.packed()) {
      if (slots_->free() == 0) break;
      item.slot = slots_->take();
      pack(item.message, item.slot);
      data = item.slot.first(item.message.bytes);
    } else {
      data = item.message.pieces.front();
    }
    item.request = wire_->send(data, item.to, tag_);
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
    const Span<const std::byte> arrived = item.slot.first(item.message.bytes);
    add_as_ ? add_to(arrived, item.message, *add_as_) : unpack(arrived, item.message);
    slots_->give_back(item.slot);
  }
  while (!waiting_.empty() && receiving_.size() < most_under_way) {
    Item& item = waiting_.front();
    Span<std::byte> data;
    if (!add_as_ && !item.message.packed()) {
      data = item.message.pieces.front();
    } else {
      if (slots_->free() == 0) break;
      item.slot = slots_->take();
      data = item.slot.first(item.message.bytes);
    }
    item.request = wire_->receive(data, item.from, tag_);
    receiving_.push_back(std::move(item));
    waiting_.pop_front();
  }
  return waiting_.empty() && receiving_.empty();
}

}  // namespace shoal::comm
