// SPDX-License-Identifier: Apache-2.0
// Arenas are memory of the GPU, one cudaMalloc each; staging memory is pinned.
#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_state.hpp"
#include "message_buffers.hpp"
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
  reserved().list.push_back({static_cast<const std::byte*>(at), bytes});
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

/// Waits for all that is on the current queue.
void finish_current() {
  Event behind;
  behind.record();
  while (!behind.reached()) std::this_thread::yield();
}

}  // namespace

bool holds(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(reserved().mutex);
  return std::any_of(reserved().list.begin(), reserved().list.end(),
                     [&](const Arena& arena) { return arena.begin <= at && at < arena.begin + arena.bytes; });
}

std::byte* for_messages(Span<const std::byte> memory, Access access, Calls calls) {
  auto* at = const_cast<std::byte*>(memory.data());
  if (memory.empty() || !holds(at)) return at;
  if (!reach_arenas(calls)) {
    at = image_of(memory, calls);
    if (access == Access::read) copy(memory.size(), memory.data(), at);
  }
  finish_current();
  return at;
}

void received(Span<std::byte> memory, Calls calls) {
  if (reach_arenas(calls) || memory.empty() || !holds(memory.data())) return;
  copy(memory.size(), image_of(memory, calls), memory.data());
  finish_current();
}

}  // namespace shoal::device
