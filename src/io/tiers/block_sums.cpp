// SPDX-License-Identifier: Apache-2.0
#include "io/tiers/block_sums.hpp"

#include <algorithm>

#include "io/files/hash.hpp"

namespace shoal::io {

void BlockSums::add_buffer(std::size_t bytes) {
  first_.push_back(blocks_);
  blocks_ += (bytes + block_bytes_ - 1) / block_bytes_;
  sums_.resize(blocks_);
}

void BlockSums::set(std::size_t buffer, std::size_t block, Span<const std::byte> data) {
  for (; !data.empty(); data = data.subspan(std::min(block_bytes_, data.size())), ++block) {
    sums_[first_[buffer] + block] = xxh3(data.first(std::min(block_bytes_, data.size())), first_[buffer] + block);
  }
}

std::optional<std::size_t> BlockSums::first_that_differs(std::size_t buffer, std::size_t block,
                                                         Span<const std::byte> data) const {
  for (; !data.empty(); data = data.subspan(std::min(block_bytes_, data.size())), ++block) {
    const std::optional<std::uint64_t>& sum = sums_[first_[buffer] + block];
    if (sum && *sum != xxh3(data.first(std::min(block_bytes_, data.size())), first_[buffer] + block)) return block;
  }
  return std::nullopt;
}

}  // namespace shoal::io
