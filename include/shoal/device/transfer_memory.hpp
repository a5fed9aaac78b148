// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/memory.hpp"
#include "shoal/device/tier.hpp"

namespace shoal::device {

/// Memory to which a tier's bytes come up. Transfers want it aligned, and filled up to whole sectors.
inline Span<std::byte> take_for_transfers(Memory& memory, Kind kind, std::size_t bytes, const char* label) {
  constexpr std::size_t alignment = Tier::alignment;
  const std::size_t whole = round_up(bytes, alignment);
  const Span<std::byte> taken = memory.take<std::byte>(kind, whole + alignment, label);
  if (memory.counting()) return taken.first(whole);
  const std::size_t skipped =
      round_up(reinterpret_cast<std::uintptr_t>(taken.data()), alignment) - reinterpret_cast<std::uintptr_t>(taken.data());
  return taken.subspan(skipped, whole);
}

}  // namespace shoal::device
