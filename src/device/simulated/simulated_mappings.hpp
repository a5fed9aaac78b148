// SPDX-License-Identifier: Apache-2.0
// The ranges of addresses that the simulated device has reserved. One thread reserves and releases them; other threads and
// the signal handler look for addresses in them at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shoal/base/memory.hpp"

namespace shoal::device::simulated {

/// A node of a list that is read without a lock: all but `state` is constant when others can see it, and no node is ever
/// freed.
struct Mapping {
  /// released: out of everybody's reach, since work was enqueued when the memory was released. gone: no longer reserved.
  enum class State : std::uint8_t { arena, released, gone };

  std::byte* begin;
  std::byte* messages;  ///< the same memory at another address, for for_messages(); of arenas alone
  std::size_t bytes;
  std::vector<Memory::Entry> buffers;  ///< of released memory, one after another
  std::atomic<State> state;
  Mapping* next = nullptr;

  bool holds(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    return state != State::gone && begin <= at && at < begin + bytes;
  }
};

/// The newest one. A loop over the list follows `next`.
Mapping* first_mapping();
/// The mapping that an address lies in; null if there is none.
Mapping* mapping_of(const void* address);
struct Addresses {
  std::byte* begin;
  std::byte* messages;
  std::size_t bytes;
};
void add_arena(const Addresses& arena);
/// Makes memory that is being released unreadable, and gives its pages back, but keeps its addresses reserved. To be called
/// as long as the Memory object still knows its buffers.
void keep_reserved(std::byte* begin, std::size_t bytes);

/// From now on a fault in a mapping prints what was touched, before the fault is handled as it was before.
void watch_for_faults();
/// Prints the message and ends the program. For destructors, which must not throw.
[[noreturn]] void give_up(const char* message);

}  // namespace shoal::device::simulated
