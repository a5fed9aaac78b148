// SPDX-License-Identifier: Apache-2.0
// Checksums of the blocks of a tier, taken when they go down and compared when they come up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shoal/base/types.hpp"

namespace shoal::io {

class BlockSums {
 public:
  explicit BlockSums(std::size_t block_bytes) : block_bytes_(block_bytes) {}
  /// Adds a buffer of so many bytes.
  void add_buffer(std::size_t bytes);

  /// True if this block of a buffer, counted from 0, went down.
  bool written(std::size_t buffer, std::size_t block) const { return sums_[first_[buffer] + block].has_value(); }
  /// data: from the first byte of a block to the end of one, or of the buffer.
  void set(std::size_t buffer, std::size_t block, Span<const std::byte> data);
  /// The first block that was written and is not as it was; none if all are.
  std::optional<std::size_t> first_that_differs(std::size_t buffer, std::size_t block, Span<const std::byte> data) const;

 private:
  std::size_t block_bytes_, blocks_ = 0;
  std::vector<std::size_t> first_;                  // by buffer: its first block
  std::vector<std::optional<std::uint64_t>> sums_;  // by block; none: never written
};

}  // namespace shoal::io
