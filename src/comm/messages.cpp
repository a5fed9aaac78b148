// SPDX-License-Identifier: Apache-2.0
#include "messages.hpp"

#include <algorithm>
#include <bit>
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

std::vector<std::size_t> partners_in_order(std::size_t own, std::size_t size) {
  std::vector<std::size_t> partners;
  for (std::size_t round = 1; round < std::bit_ceil(size); ++round) {
    if (const std::size_t partner = own ^ round; partner < size) partners.push_back(partner);
  }
  return partners;
}

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

std::vector<Message> cut_into_messages(const std::vector<Span<std::byte>>& spans, std::size_t largest) {
  std::vector<Message> messages;
  bool joining = false;  // the last message takes further small pieces
  for (const Span<std::byte> span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += largest) {
      const Span<std::byte> piece = span.subspan(begin, std::min(largest, span.size() - begin));
      const bool small = piece.size() < worth_a_message;
      if (!small || !joining || messages.back().bytes + piece.size() > largest) messages.emplace_back();
      append(messages.back(), piece);
      joining = small;
    }
  }
  return messages;
}

std::optional<Span<std::byte>> Ring::take(std::size_t bytes) {
  const std::size_t length = round_up(bytes, line);
  if (pieces_.empty()) {
    require(length <= memory_.size(), "a message of ", bytes, " bytes, but memory of ", memory_.size());
    end_ = 0;
  } else if (const std::size_t oldest = pieces_.front().begin;
             end_ <= oldest) {  // it has gone round: free is what lies between
    if (length > oldest - end_) return {};
  } else if (length > memory_.size() - end_) {
    if (length > oldest) return {};
    end_ = 0;
  }
  pieces_.push_back({end_, true});
  end_ += length;
  return memory_.subspan(pieces_.back().begin, bytes);
}

void Ring::give_back(Span<std::byte> taken) {
  const auto begin = static_cast<std::size_t>(taken.data() - memory_.data());
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) { return p.begin == begin && p.out; });
  require(piece != pieces_.end(), "memory for a message comes back that is not out");
  piece->out = false;
  while (!pieces_.empty() && !pieces_.front().out) pieces_.pop_front();
}

bool Sender::advance() {
  while (!sending_.empty() && sending_.front().request.test()) {
    if (!sending_.front().packed.empty()) ring_->give_back(sending_.front().packed);
    sending_.pop_front();
  }
  while (!waiting_.empty() && sending_.size() < most_under_way) {
    Item& item = waiting_.front();
    Span<const std::byte> data = item.message.pieces.front();
    if (item.message.packed()) {
      const auto packed = ring_->take(item.message.bytes);
      if (!packed) break;
      pack(item.message, *packed);
      data = item.packed = *packed;
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
    if (item.aside.empty()) continue;
    add_as_ ? add_to(item.aside, item.message, *add_as_) : unpack(item.aside, item.message);
    ring_->give_back(item.aside);
  }
  while (!waiting_.empty() && receiving_.size() < most_under_way) {
    Item& item = waiting_.front();
    Span<std::byte> data = item.message.pieces.front();
    if (add_as_ || item.message.packed()) {
      const auto aside = ring_->take(item.message.bytes);
      if (!aside) break;
      data = item.aside = *aside;
    }
    item.request = wire_->receive(data, item.from, tag_);
    receiving_.push_back(std::move(item));
    waiting_.pop_front();
  }
  return waiting_.empty() && receiving_.empty();
}

}  // namespace shoal::comm
