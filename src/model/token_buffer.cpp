// SPDX-License-Identifier: Apache-2.0
#include "token_buffer.hpp"

#include "shoal/base/error.hpp"

namespace shoal::model {

TokenBuffer::TokenBuffer(Memory& memory, std::size_t most, std::size_t slots, std::size_t micro_batches) : most_(most) {
  for (std::size_t slot = 0; slot < slots; ++slot) {
    on_device_.push_back(memory.take<std::int32_t>(Kind::activations, most, "tokens"));
  }
  staging_ = memory.take<std::int32_t>(Kind::staging, most * micro_batches, "tokens");
  if (!memory.counting()) copied_ = std::vector<device::Event>(micro_batches);
}

Span<std::int32_t> TokenBuffer::next(std::size_t tokens) {
  require(tokens <= most_, tokens, " tokens for a buffer of ", most_);
  place_ = (place_ + 1) % copied_.size();
  if (!copied_[place_].reached()) copied_[place_].wait();
  filling_ = staging_.subspan(place_ * most_, tokens);
  return filling_;
}

const std::int32_t* TokenBuffer::upload(std::size_t slot) {
  const Span<std::int32_t> on_device = on_device_[slot];
  device::copy(filling_.size_bytes(), filling_.data(), on_device.data());
  copied_[place_].record();
  return on_device.data();
}

}  // namespace shoal::model
