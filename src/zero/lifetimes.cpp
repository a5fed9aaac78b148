// SPDX-License-Identifier: Apache-2.0
#include "zero/lifetimes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shoal/base/types.hpp"

namespace shoal::zero {

namespace {

constexpr std::size_t alignment = 64;  // bytes: a cache line

/// The buffers that have a place already, by the times at which they are needed: there may be very many buffers, few of
/// which are needed at the same time.
class Placed {
 public:
  explicit Placed(const std::vector<Lifetime>& buffers) : seen_(buffers.size(), buffers.size()) {
    std::size_t end = 0;
    for (const Lifetime& buffer : buffers) end = std::max(end, buffer.last + 1);
    at_.resize(end);
  }
  void add(std::size_t buffer, const Lifetime& lifetime) {
    for (std::size_t time = lifetime.first; time <= lifetime.last; ++time) at_[time].push_back(buffer);
  }
  /// Calls function(other) once for each buffer that is needed at a time of this one.
  template <typename Function>
  void for_each_overlapping(std::size_t buffer, const Lifetime& lifetime, const Function& function) {
    for (std::size_t time = lifetime.first; time <= lifetime.last; ++time) {
      for (const std::size_t other : at_[time]) {
        if (std::exchange(seen_[other], buffer) != buffer) function(other);
      }
    }
  }

 private:
  std::vector<std::vector<std::size_t>> at_;  // by time
  std::vector<std::size_t> seen_;             // by buffer: the last one for which it was found
};

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
  Placed placed(buffers);
  for (const std::size_t i : order) {
    std::vector<Range> taken;
    placed.for_each_overlapping(i, buffers[i], [&](std::size_t other) {
      taken.push_back({layout.offsets[other], layout.offsets[other] + round_up(buffers[other].bytes, alignment)});
    });
    placed.add(i, buffers[i]);
    std::sort(taken.begin(), taken.end(), [](Range a, Range b) { return a.begin < b.begin; });
    const std::size_t bytes = round_up(buffers[i].bytes, alignment);
    layout.offsets[i] = lowest_gap(taken, bytes);
    layout.bytes = std::max(layout.bytes, layout.offsets[i] + bytes);
  }
  return layout;
}

}  // namespace shoal::zero
