// SPDX-License-Identifier: Apache-2.0
// Places buffers whose times of use are known beforehand in one memory: those that are never needed at the same time may
// overlap.
#pragma once

#include <cstddef>
#include <vector>

namespace shoal::zero {

/// The size of a buffer, and the first and the last time at which it is needed.
struct Lifetime {
  std::size_t bytes, first, last;
};

struct MemoryLayout {
  std::vector<std::size_t> offsets;  ///< by buffer, in bytes; multiples of 64
  std::size_t bytes = 0;             ///< of the whole memory
};

/// Greedy by size: the largest buffer first, each at the lowest offset where it fits (Pisarchyk and Lee 2020, "Efficient
/// Memory Management for Deep Neural Net Inference", section 5).
MemoryLayout lay_out(const std::vector<Lifetime>& buffers);

}  // namespace shoal::zero
