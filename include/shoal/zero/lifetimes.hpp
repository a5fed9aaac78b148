// SPDX-License-Identifier: Apache-2.0
// Buffers whose times of use are known beforehand share one piece of memory: those that are never needed together may lie
// over each other.
#pragma once

#include <cstddef>
#include <vector>

namespace shoal::zero {

/// A buffer that is needed from time `first` to time `last`, both included.
struct Lifetime {
  std::size_t bytes, first, last;
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct MemoryLayout {
  std::vector<std::size_t> offsets;  ///< by buffer, in bytes, on 64-byte borders
  std::size_t bytes = 0;             ///< of all together
};

/// Greedy by size: the largest buffer first, each at the lowest place where it fits (Pisarchyk and Lee 2020, "Efficient
/// Memory Management for Deep Neural Net Inference", section 5).
MemoryLayout lay_out(const std::vector<Lifetime>& buffers);

}  // namespace shoal::zero
