// SPDX-License-Identifier: Apache-2.0
// Divides a block of scratch memory into buffers.
#pragma once

#include <cstddef>

#include "shoal/base/types.hpp"

namespace shoal {

/// A bump allocator: buffers follow one another, and none of them is given back. One function that takes its buffers from a
/// BumpAllocator both computes how many bytes it needs (without memory) and divides them (with memory).
class BumpAllocator {
 public:
  static constexpr std::size_t cache_line = 64;

  /// Without memory: buffers are only counted, and null.
  BumpAllocator() = default;
  /// Each buffer begins a multiple of `alignment` bytes after the start of `memory`.
  explicit BumpAllocator(Span<std::byte> memory, std::size_t alignment = cache_line)
      : counting_(false), memory_(memory), alignment_(alignment) {}

  /// The next buffer, of `elements` elements of T. Fails if the memory is too small.
  template <typename T>
  T* take(std::size_t elements) {
    return reinterpret_cast<T*>(take_bytes(elements * sizeof(T)).data());
  }
  Span<std::byte> take_bytes(std::size_t bytes);

  /// Bytes of all buffers, with the gaps behind them.
  std::size_t used() const { return used_; }

 private:
  bool counting_ = true;
  Span<std::byte> memory_;
  std::size_t alignment_ = cache_line, used_ = 0;
};

}  // namespace shoal
