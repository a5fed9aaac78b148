// SPDX-License-Identifier: Apache-2.0
#include "device/simulated/simulated_messages.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <set>
#include <string_view>

#include "device/message_buffers.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/simulated.hpp"

namespace shoal::device {

namespace {

std::set<const std::byte*> used;  // the first bytes of buffers

/// Checks in every run that the memory was taken for such calls.
std::byte* checked_image(Span<const std::byte> memory, Calls calls) {
  std::size_t at = 0;
  return image_of(memory, calls, [&](const Memory::Place& place) {
    used.insert(memory.data() + at - place.byte);
    at += place.bytes - place.byte;
  });
}

bool reports_unused() {
  const char* const given = std::getenv("SHOAL_SIMULATE_MESSAGES");
  if (given == nullptr) return false;
  require_input(given == std::string_view("unused"), "SHOAL_SIMULATE_MESSAGES=", given, ": allowed: unused");
  return true;
}

}  // namespace

void simulated::forget_messages(Span<const std::byte> arena) {
  const bool reports = std::uncaught_exceptions() == 0 && reports_unused();
  for (std::size_t at = 0; at < arena.size();) {
    const std::optional<Memory::Place> place = Memory::place_of(arena.data() + at);
    if (!place) break;  // what was not taken
    const bool was_used = used.erase(arena.data() + at) > 0;
    if (reports && !was_used && place->use != Use::kernels) {
      static_cast<void>(std::fprintf(stderr, "shoal: no message has used %s: %s\n", name_of(place->kind), place->label));
    }
    at += place->bytes;
  }
}

std::byte* for_messages(Span<const std::byte> memory, Access access, Calls calls) {
  auto* const from = const_cast<std::byte*>(memory.data());
  if (memory.empty() || !holds(from)) return from;
  std::byte* const image = checked_image(memory, calls);
  simulated::finish_current();
  std::byte* const at = simulated::address_for_messages(from);
  if (image == nullptr) return at;
  if (access == Access::read) std::memcpy(image, at, memory.size());
  return image;
}

void received(Span<std::byte> memory, Calls calls) {
  if (memory.empty() || !holds(memory.data())) return;
  const std::byte* const image = checked_image(memory, calls);
  if (image != nullptr) std::memcpy(simulated::address_for_messages(memory.data()), image, memory.size());
}

}  // namespace shoal::device
