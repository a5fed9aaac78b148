// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <exception>

#include "device/simulated/simulated_mappings.hpp"
#include "device/simulated/simulated_messages.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/simulated.hpp"

namespace shoal::device {

namespace {

using simulated::Mapping;

int times_opened = 0;

const Mapping* arena_of(const void* address) {
  const Mapping* const mapping = simulated::mapping_of(address);
  return mapping != nullptr && mapping->state == Mapping::State::arena ? mapping : nullptr;
}

bool protect_arenas(int how) {
  bool done = true;
  for (const Mapping* mapping = simulated::first_mapping(); mapping != nullptr; mapping = mapping->next) {
    if (mapping->state == Mapping::State::arena) done = mprotect(mapping->begin, mapping->bytes, how) == 0 && done;
  }
  return done;
}

std::byte* map(int file, std::size_t bytes, int how) {
  void* const at = mmap(nullptr, bytes, how, MAP_SHARED | MAP_NORESERVE, file, 0);
  require(at != MAP_FAILED, "cannot map ", bytes, " bytes for the simulated device");
  return static_cast<std::byte*>(at);
}

void* reserve_arena(std::size_t bytes, const char* what) {
  simulated::watch_for_faults();
  const int file = memfd_create(what, MFD_CLOEXEC);
  require(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0, "cannot reserve ", bytes, " bytes for ", what);
  std::byte* const at = map(file, bytes, times_opened > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  simulated::add_arena({at, map(file, bytes, PROT_READ | PROT_WRITE), bytes});
  close(file);
  return at;
}

/// True if work that uses memory which is released now may still be done. While an exception unwinds the stack, none is: it
/// may also use memory of functions that have ended.
bool in_use() {
  if (std::uncaught_exceptions() > 0) simulated::drop();
  return simulated::pending();
}

void release_arena(void* at, std::size_t bytes) {
  Mapping& arena = *simulated::mapping_of(at);
  simulated::forget_messages({arena.begin, bytes});
  arena.state = Mapping::State::gone;
  munmap(arena.messages, bytes);
  if (in_use()) {
    simulated::keep_reserved(arena.begin, bytes);
  } else {
    munmap(at, bytes);
  }
}

void* reserve_staging(std::size_t bytes, const char* what) {
  simulated::watch_for_faults();
  return pages().reserve(bytes, what);
}

void release_staging(void* at, std::size_t bytes) {
  if (in_use()) {
    simulated::keep_reserved(static_cast<std::byte*>(at), bytes);
  } else {
    pages().release(at, bytes);
  }
}

}  // namespace

namespace simulated {

Opened::Opened() {
  if (times_opened == 0) require(protect_arenas(PROT_READ | PROT_WRITE), "the simulated device's memory cannot be opened");
  ++times_opened;
}
Opened::~Opened() {
  if (--times_opened == 0 && !protect_arenas(PROT_NONE)) give_up("the simulated device's memory cannot be closed");
}

}  // namespace simulated

Allocator arenas() { return {reserve_arena, release_arena}; }
Allocator staging() { return {reserve_staging, release_staging}; }
bool holds(const void* address) { return arena_of(address) != nullptr; }

std::byte* simulated::address_for_messages(const void* address) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  const Mapping* const arena = arena_of(address);
  return arena == nullptr ? at : arena->messages + (at - arena->begin);
}

}  // namespace shoal::device
