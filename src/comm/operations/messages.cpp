// SPDX-License-Identifier: Apache-2.0
#include "comm/operations/messages.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "shoal/base/error.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/storage.hpp"

namespace shoal::comm {

namespace {

/// Spans of fewer bytes are faster to copy into a common message than to send as messages of their own.
constexpr std::size_t smallest_own_message = std::size_t{1} << 16U;
/// Limit for the number of messages in flight.
constexpr std::size_t most_in_flight = 64;

void add_to(Span<const std::byte> slot, const Message& message, DType type) {
  for (const Span<std::byte> span : message.spans) {
    kernels::add(type, span.size() / size_of(type), slot.data(), span.data());
    slot = slot.subspan(span.size());
  }
}

void append(Message& message, Span<std::byte> span) {
  message.bytes += span.size();
  if (!message.spans.empty()) {
    Span<std::byte>& last = message.spans.back();
    if (last.data() + last.size() == span.data()) {
      last = {last.data(), last.size() + span.size()};
      return;
    }
  }
  message.spans.push_back(span);
}

}  // namespace

std::vector<std::size_t> partners_in_order(std::size_t own, std::size_t size) {
  std::vector<std::size_t> partners;
  for (std::size_t round = 1; round < std::bit_ceil(size); ++round) {
    if (const std::size_t partner = own ^ round; partner < size) partners.push_back(partner);
  }
  return partners;
}

std::size_t size_in_bytes(const std::vector<Span<std::byte>>& spans) {
  std::size_t bytes = 0;
  for (const Span<std::byte> span : spans) bytes += span.size();
  return bytes;
}

std::size_t size_in_bytes(const std::vector<std::vector<Span<std::byte>>>& blocks) {
  std::size_t bytes = 0;
  for (const std::vector<Span<std::byte>>& block : blocks) bytes += size_in_bytes(block);
  return bytes;
}

void pack(const Message& message, Span<std::byte> slot) {
  for (const Span<std::byte> span : message.spans) {
    kernels::copy_bytes(span.size(), span.data(), slot.data());
    slot = slot.subspan(span.size());
  }
}

void unpack(Span<const std::byte> slot, const Message& message) {
  for (const Span<std::byte> span : message.spans) {
    kernels::copy_bytes(span.size(), slot.data(), span.data());
    slot = slot.subspan(span.size());
  }
}

std::vector<Message> cut_into_messages(const std::vector<Span<std::byte>>& spans, std::size_t largest) {
  std::vector<Message> messages;
  bool joining = false;  // further small parts may join the last message
  for (const Span<std::byte> span : spans) {
    for (std::size_t begin = 0; begin < span.size(); begin += largest) {
      const Span<std::byte> part = span.subspan(begin, std::min(largest, span.size() - begin));
      const bool small = part.size() < smallest_own_message;
      if (!small || !joining || messages.back().bytes + part.size() > largest) messages.emplace_back();
      append(messages.back(), part);
      joining = small;
    }
  }
  return messages;
}

std::optional<Span<std::byte>> RingBuffer::take(std::size_t bytes) {
  const std::size_t length = round_up(bytes, cache_line);
  if (regions_.empty()) {
    require(length <= memory_.size(), "a message of ", bytes, " bytes, but memory of ", memory_.size());
    end_ = 0;
  } else if (const std::size_t oldest = regions_.front().begin;
             end_ <= oldest) {  // it has wrapped around: the space between the two is free
    if (length > oldest - end_) return {};
  } else if (length > memory_.size() - end_) {
    if (length > oldest) return {};
    end_ = 0;
  }
  regions_.push_back({end_, true});
  end_ += length;
  return memory_.subspan(regions_.back().begin, bytes);
}

void RingBuffer::give_back(Span<std::byte> taken) {
  const auto begin = static_cast<std::size_t>(taken.data() - memory_.data());
  const auto region =
      std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.begin == begin && r.in_use; });
  require(region != regions_.end(), "memory for a message was given back twice, or never taken");
  region->in_use = false;
  while (!regions_.empty() && !regions_.front().in_use) regions_.pop_front();
}

bool Sender::advance() {
  while (!sending_.empty() && sending_.front().request.test()) {
    if (!sending_.front().packed.empty()) ring_->give_back(sending_.front().packed);
    sending_.pop_front();
  }
  while (!waiting_.empty() && sending_.size() < most_in_flight) {
    Item& item = waiting_.front();
    Span<const std::byte> data = item.message.spans.front();
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
    if (item.staging.empty()) continue;
    add_as_ ? add_to(item.staging, item.message, *add_as_) : unpack(item.staging, item.message);
    ring_->give_back(item.staging);
  }
  while (!waiting_.empty() && receiving_.size() < most_in_flight) {
    Item& item = waiting_.front();
    Span<std::byte> data = item.message.spans.front();
    if (add_as_ || item.message.packed()) {
      const auto staging = ring_->take(item.message.bytes);
      if (!staging) break;
      data = item.staging = *staging;
    }
    item.request = wire_->receive(data, item.from, tag_);
    receiving_.push_back(std::move(item));
    waiting_.pop_front();
  }
  return waiting_.empty() && receiving_.empty();
}

}  // namespace shoal::comm
