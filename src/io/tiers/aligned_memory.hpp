// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace shoal::io {

/// Of a disk: what requests that bypass the system's cache are multiples of, in the file and in memory.
inline constexpr std::size_t sector = 4096;

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{sector}); }
};
using AlignedMemory = std::unique_ptr<std::byte[], AlignedDelete>;

inline AlignedMemory aligned_memory(std::size_t bytes) {
  return AlignedMemory(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{sector})));
}

}  // namespace shoal::io
