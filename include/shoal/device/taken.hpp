// SPDX-License-Identifier: Apache-2.0
// What takes memory of the unit besides arenas: other processes, CUDA, and each of the libraries. CUDA does not say whose
// memory is whose, so each is measured when it starts, as the bytes that are no longer free.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shoal::device {

struct Taken {
  std::string by;  ///< "cuBLASLt"
  std::uint64_t bytes;
};

/// In the order in which they were first measured; open() measures what was there before. Empty if there is no unit. What
/// other processes take while something is measured is counted with it.
const std::vector<Taken>& taken();

/// Calls act(), in which `by` takes memory, and adds the bytes that are no longer free then to those of the same name. No
/// arena may be reserved meanwhile. Without a unit it only calls act().
void measure_taken(const std::string& by, const std::function<void()>& act);
/// Adds bytes that were measured in another way.
void add_taken(const std::string& by, std::uint64_t bytes);

/// Bytes of the unit's memory that are free now; none if there is no unit.
std::optional<std::uint64_t> unit_free_bytes();

}  // namespace shoal::device
