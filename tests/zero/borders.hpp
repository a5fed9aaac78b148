// SPDX-License-Identifier: Apache-2.0
// A rank that computes a model in several parts: the parts, and the memory between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "shoal/device/memory.hpp"
#include "shoal/model/part.hpp"

namespace shoal::zero::test {

/// What crosses the borders of parts: memory for each turn.
class Borders {
 public:
  Borders(std::size_t borders, std::size_t turns, std::size_t bytes)
      : turns_(turns),
        bytes_(bytes),
        memory_([&](Memory& memory) { all_ = memory.take<std::byte>(Kind::buffers, borders * turns * bytes, "borders"); }) {}
  /// Of the border before the part; null before the first part.
  void* before(std::size_t part, std::size_t turn) {
    return part == 0 ? nullptr : all_.data() + ((part - 1) * turns_ + turn) * bytes_;
  }
  /// Null after the last part.
  void* after(std::size_t part, std::size_t turn) {
    return (part + 1) * turns_ * bytes_ > all_.size() ? nullptr : before(part + 1, turn);
  }

 private:
  std::size_t turns_, bytes_;
  Span<std::byte> all_;
  device::DeviceMemory memory_;
};

/// units: of the model.
inline std::vector<model::Part> parts_of(std::size_t units, const std::vector<std::size_t>& balance,
                                         const std::vector<std::size_t>& slots, std::size_t most_whole) {
  std::vector<model::Part> parts;
  for (std::size_t k = 0, unit = 0; k < balance.size(); ++k) {
    const std::size_t begin = unit;
    unit = k + 1 == balance.size() ? units : unit + balance[k] + (k == 0 ? 1 : 0);
    parts.push_back({{begin, unit}, slots[k], std::min(slots[k], most_whole)});
  }
  return parts;
}

}  // namespace shoal::zero::test
