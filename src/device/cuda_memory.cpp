// SPDX-License-Identifier: Apache-2.0
// Arenas are memory of the GPU, one cudaMalloc each; staging memory is pinned.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_state.hpp"
#include "message_pieces.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::device {

namespace {

constexpr std::size_t for_code = std::size_t{256} << 20U;

struct Arena {
  const std::byte* begin;
  std::size_t bytes;
  std::shared_ptr<cuda::MessageMemory> messages;  // made at the first call that does not reach arenas
};

struct Arenas {
  std::mutex mutex;
  std::vector<Arena> list;
};
Arenas& reserved() {
  static Arenas arenas;
  return arenas;
}

struct Bytes {
  std::size_t free = 0, total = 0;
};
Bytes bytes_now() {
  Bytes bytes;
  cuda::check(cudaMemGetInfo(&bytes.free, &bytes.total), "cudaMemGetInfo");
  return bytes;
}

void* reserve_arena(std::size_t bytes, const char* what) {
  require(cuda::is_open(), "the GPU was not started before memory for ", what, " was asked for");
  const Bytes before = bytes_now();
  void* at = nullptr;
  const cudaError_t status = cudaMalloc(&at, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // or the next launch would report it
    fail("GPU ", unit().index, " (", unit().name.data(), ") has no ", bytes, " bytes for ", what, ": ", before.free, " of ",
         before.total, " bytes are free");
  }
  cuda::check(status, "cudaMalloc");
  cuda::check(cudaMemset(at, 0, bytes), "cudaMemset");
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the queues do not wait for cudaMemset()
  const std::lock_guard lock(reserved().mutex);
  reserved().list.push_back({static_cast<const std::byte*>(at), bytes, nullptr});
  return at;
}

/// While an exception unwinds the stack, the memory is left to the end of the process: cudaFree() waits for all kernels, and
/// one of them may never end.
void release_arena(void* at, std::size_t /*bytes*/) {
  {
    const std::lock_guard lock(reserved().mutex);
    std::erase_if(reserved().list, [&](const Arena& arena) { return arena.begin == at; });
  }
  if (std::uncaught_exceptions() == 0) cuda::check(cudaFree(at), "cudaFree");
}

void* reserve_staging(std::size_t bytes, const char* what) {
  require(cuda::is_open(), "the GPU was not started before memory for ", what, " was asked for");
  void* at = nullptr;
  const cudaError_t status = cudaMallocHost(&at, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail("this machine has no ", bytes, " bytes of pinned memory for ", what);
  }
  cuda::check(status, "cudaMallocHost");
  std::memset(at, 0, bytes);
  return at;
}

void release_staging(void* at, std::size_t /*bytes*/) {
  if (std::uncaught_exceptions() == 0) cuda::check(cudaFreeHost(at), "cudaFreeHost");
}

}  // namespace

std::size_t free_bytes() {
  const std::size_t free = bytes_now().free;
  return free - std::min(free, for_code);
}
std::optional<std::uint64_t> unit_free_bytes() { return bytes_now().free; }

Allocator arenas() { return {reserve_arena, release_arena}; }
Allocator staging() { return {reserve_staging, release_staging}; }

namespace {

/// The arena that holds the address; null if none does.
Arena* arena_of(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (Arena& arena : reserved().list) {
    if (arena.begin <= at && at < arena.begin + arena.bytes) return &arena;
  }
  return nullptr;
}

/// Where messages have some bytes of an arena.
struct OnHost {
  std::byte* at;
  std::size_t first;  // from the beginning of the arena
};
/// Only one thread sends messages and reserves memory.
OnHost on_host(Span<const std::byte> memory) {
  const std::lock_guard lock(reserved().mutex);
  Arena& arena = *arena_of(memory.data());
  if (arena.messages == nullptr) arena.messages = std::make_shared<cuda::MessageMemory>(arena.bytes);
  const auto first = static_cast<std::size_t>(memory.data() - arena.begin);
  return {arena.messages->at(first, memory.size()), first};
}

/// Copies a message from an arena to on_host(), or back.
void copy_message(std::size_t first, std::size_t bytes, const std::byte* from, std::byte* to) {
  for_each_piece(first, bytes, cuda::MessageMemory::piece,
                 [&](std::size_t begin, std::size_t count) { copy(count, from + begin, to + begin); });
}

/// Waits for all that is on the current queue.
void finish_current() {
  Event behind;
  behind.record();
  while (!behind.reached()) std::this_thread::yield();
}

}  // namespace

bool holds(const void* address) {
  const std::lock_guard lock(reserved().mutex);
  return arena_of(address) != nullptr;
}

std::byte* for_messages(Span<const std::byte> memory, Access access, Calls calls) {
  auto* at = const_cast<std::byte*>(memory.data());
  if (memory.empty() || !holds(at)) return at;
  if (!reach_arenas(calls)) {
    const OnHost message = on_host(memory);
    if (access == Access::read) copy_message(message.first, memory.size(), memory.data(), message.at);
    at = message.at;
  }
  finish_current();
  return at;
}

void received(Span<std::byte> memory, Calls calls) {
  if (reach_arenas(calls) || memory.empty() || !holds(memory.data())) return;
  const OnHost message = on_host(memory);
  copy_message(message.first, memory.size(), message.at, memory.data());
  finish_current();
}

}  // namespace shoal::device
