// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/lifetimes.hpp"

#include <algorithm>
#include <numeric>

#include "shoal/base/types.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t alignment = 64;  // bytes: a cache line

/// Returns the lowest offset at which `bytes` overlap no range in `taken`, which is sorted by begin.
std::size_t lowest_gap(const std::vector<Range>& taken, std::size_t bytes) {
  std::size_t offset = 0;
  for (const Range& range : taken) {
    if (offset + bytes <= range.begin) return offset;
    offset = std::max(offset, range.end);
  }
  return offset;
}

}  // namespace

MemoryLayout lay_out(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  MemoryLayout layout;
  layout.offsets.resize(buffers.size());
  for (std::size_t done = 0; done < order.size(); ++done) {
    const std::size_t i = order[done];
    std::vector<Range> taken;
    for (std::size_t k = 0; k < done; ++k) {
      const std::size_t other = order[k];
      if (!buffers[other].overlaps(buffers[i])) continue;
      taken.push_back({layout.offsets[other], layout.offsets[other] + round_up(buffers[other].bytes, alignment)});
    }
    std::sort(taken.begin(), taken.end(), [](Range a, Range b) { return a.begin < b.begin; });
    const std::size_t bytes = round_up(buffers[i].bytes, alignment);
    layout.offsets[i] = lowest_gap(taken, bytes);
    layout.bytes = std::max(layout.bytes, layout.offsets[i] + bytes);
  }
  return layout;
}

}  // namespace shoal::zero
