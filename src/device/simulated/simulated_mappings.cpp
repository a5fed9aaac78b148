// SPDX-License-Identifier: Apache-2.0
#include "device/simulated/simulated_mappings.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

namespace shoal::device::simulated {

namespace {

std::atomic<Mapping*> first = nullptr;
static_assert(std::atomic<Mapping*>::is_always_lock_free && std::atomic<Mapping::State>::is_always_lock_free);

void add(Mapping::State state, const Addresses& at, std::vector<Memory::Entry> buffers) {
  first = new Mapping{at.begin, at.messages, at.bytes, std::move(buffers), state, first};
}

/// Copies what the Memory object knows of its buffers in this range.
std::vector<Memory::Entry> buffers_in(const std::byte* begin, std::size_t bytes) {
  std::vector<Memory::Entry> buffers;
  for (std::size_t at = 0; at < bytes;) {
    const std::optional<Memory::Place> place = Memory::place_of(begin + at);
    if (!place) break;  // what was not taken
    buffers.push_back({place->kind, place->label, place->bytes});
    at += place->bytes;
  }
  return buffers;
}

}  // namespace

Mapping* first_mapping() { return first; }

Mapping* mapping_of(const void* address) {
  Mapping* mapping = first;
  while (mapping != nullptr && !mapping->holds(address)) mapping = mapping->next;
  return mapping;
}

void add_arena(const Addresses& arena) { add(Mapping::State::arena, arena, {}); }

void keep_reserved(std::byte* begin, std::size_t bytes) {
  add(Mapping::State::released, {begin, nullptr, bytes}, buffers_in(begin, bytes));
  constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(begin, bytes, PROT_NONE, how, -1, 0) == MAP_FAILED) {
    give_up("memory that was released cannot be kept out of reach");
  }
}

void give_up(const char* message) {
  static_cast<void>(std::fprintf(stderr, "shoal: %s\n", message));
  std::abort();
}

}  // namespace shoal::device::simulated
