// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the program. CUDA's own libraries do not call it: they have none of C++'s symbols.
#include "support/managed_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_set>

namespace {

bool managing = false;
/// True while this file allocates for itself.
thread_local bool inside = false;

/// The managed pieces that are in use. Never destroyed, since objects may be freed after the end of main().
struct Pieces {
  std::mutex mutex;
  std::unordered_set<const void*> set;
};
Pieces& pieces() {
  static auto* const made = new Pieces;
  return *made;
}

[[noreturn]] void end(const char* call, cudaError_t status) {
  static_cast<void>(std::fprintf(stderr, "managed memory: %s: %s\n", call, cudaGetErrorString(status)));
  std::abort();
}

class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

void* of_host(std::size_t bytes, std::size_t alignment) {
  // aligned_alloc() takes multiples of the alignment.
  void* const at = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

/// CUDA aligns to 256 bytes.
void* allocate(std::size_t bytes, std::size_t alignment) {
  bytes = std::max(bytes, std::size_t{1});
  if (!managing || inside || alignment > 256) return of_host(bytes, alignment);
  const Inside scope;
  void* at = nullptr;
  const cudaError_t status = cudaMallocManaged(&at, bytes);
  if (status == cudaErrorMemoryAllocation) throw std::bad_alloc();
  if (status != cudaSuccess) end("cudaMallocManaged", status);
  const std::lock_guard lock(pieces().mutex);
  pieces().set.insert(at);
  return at;
}

/// Managed pieces that are freed after the tests are left to the end of the process: CUDA may be gone by then.
void release(void* at) {
  if (at == nullptr) return;
  if (inside) return std::free(at);
  const Inside scope;
  {
    const std::lock_guard lock(pieces().mutex);
    if (pieces().set.erase(at) == 0) return std::free(at);
  }
  if (!managing) return;
  const cudaError_t status = cudaFree(at);
  if (status != cudaSuccess) end("cudaFree", status);
}

}  // namespace

namespace shoal::test {

void manage_memory(bool on) { managing = on; }

}  // namespace shoal::test

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, std::size_t /*bytes*/) noexcept { release(at); }
void operator delete(void* at, std::align_val_t /*alignment*/) noexcept { release(at); }
void operator delete(void* at, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { release(at); }
