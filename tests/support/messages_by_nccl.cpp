// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of the program, to give out pieces of an arena of the simulated device. To be run with
// SHOAL_SIMULATE=in-order, since tests read results when a request is complete, without waiting for the device.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "shoal/device/memory.hpp"
#include "shoal/device/simulated.hpp"
#include "support/messages.hpp"

namespace {

/// Before each piece, so that its size is known when it is freed. Pieces are aligned as buffers of an arena are.
constexpr std::size_t header_bytes = 64;
/// Only what is used takes memory.
constexpr std::size_t arena_bytes = std::size_t{1} << 33U;

/// Pieces of powers of two of bytes. What is freed is given out again for the same size.
class Pieces {
 public:
  void open(std::byte* arena) { next_ = begin_ = arena; }
  bool holds(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    return begin_ != nullptr && begin_ <= byte && byte < begin_ + arena_bytes;
  }
  /// What is in use may point to memory outside, which the leak sanitizer would not see from here.
  void are_no_leaks() const {
#ifdef __SANITIZE_ADDRESS__
    if (begin_ != nullptr) __lsan_register_root_region(begin_, static_cast<std::size_t>(next_ - begin_));
#endif
  }
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto power = static_cast<std::size_t>(std::bit_width(bytes + header_bytes - 1));
    std::byte* piece = free_.at(power);
    if (piece != nullptr) {
      free_[power] = header(piece).next;
    } else {
      piece = next_;
      next_ += std::size_t{1} << power;
      if (next_ > begin_ + arena_bytes) throw std::bad_alloc();
    }
    header(piece).power = power;
    return piece + header_bytes;
  }
  void give_back(void* at) {
    const std::lock_guard lock(mutex_);
    std::byte* const piece = static_cast<std::byte*>(at) - header_bytes;
    header(piece).next = free_[header(piece).power];
    free_[header(piece).power] = piece;
  }

 private:
  struct Header {
    std::size_t power;
    std::byte* next;
  };
  static Header& header(std::byte* piece) { return *reinterpret_cast<Header*>(piece); }

  std::mutex mutex_;
  std::byte *begin_ = nullptr, *next_ = nullptr;
  std::array<std::byte*, 64> free_{};
};

bool managing = false;
/// Never destroyed, since objects may be freed after the end of main().
Pieces& pieces() {
  alignas(Pieces) static std::array<std::byte, sizeof(Pieces)> memory;
  static auto* const made = new (memory.data()) Pieces;
  return *made;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (managing && alignment <= header_bytes) return pieces().take(bytes);
  alignment = std::max(alignment, alignof(std::max_align_t));
  void* const at = std::aligned_alloc(alignment, (std::max(bytes, std::size_t{1}) + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

void release(void* at) { pieces().holds(at) ? pieces().give_back(at) : std::free(at); }

}  // namespace

namespace shoal::test {

comm::CommOptions comm_options(int ranks_per_node) {
  comm::CommOptions options;
  options.backend = comm::Backend::nccl;
  options.ranks_per_node = ranks_per_node;
  return options;
}

int with_messages(int (*run)()) {
  // To the end of the process, since some vectors live as long.
  alignas(device::simulated::Opened) static std::array<std::byte, sizeof(device::simulated::Opened)> opened;
  new (opened.data()) device::simulated::Opened;
  std::optional<device::PieceMemory> for_files;
  const device::DeviceMemory staging(
      [&for_files](Memory& memory) { for_files.emplace(memory, "initial values of the tests"); });
  if (std::getenv("SHOAL_TEST_VECTORS") != nullptr) {
    pieces().open(static_cast<std::byte*>(device::arenas().reserve(arena_bytes, "vectors of the tests")));
    managing = true;
  }
  const int code = run();
  managing = false;
  pieces().are_no_leaks();
  return code;
}

}  // namespace shoal::test

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
/// std::stable_sort() uses this one. The sanitizers' own would give out memory that release() may not free.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return allocate(bytes, 1); }
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, std::size_t /*bytes*/) noexcept { release(at); }
void operator delete(void* at, std::align_val_t /*alignment*/) noexcept { release(at); }
void operator delete(void* at, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { release(at); }
