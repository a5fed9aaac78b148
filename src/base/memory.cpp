// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/memory.hpp"

#include <sys/mman.h>

#include <numeric>

#include "shoal/base/error.hpp"

namespace shoal {

namespace {
constexpr std::size_t border = 64;  // alignment: a cache line, and an AVX-512 vector

void* reserve_pages(std::size_t bytes, const char* what) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, "cannot reserve ", bytes, " bytes for ", what);
  // Huge pages mean fewer page faults and TLB misses. If the system has none, the hint is ignored.
  static_cast<void>(madvise(at, bytes, MADV_HUGEPAGE));
  return at;
}

void release_pages(void* at, std::size_t bytes) { munmap(at, bytes); }

std::vector<const Memory*> with_arenas;
}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::parameters: return "parameters";
    case Kind::master: return "master";
    case Kind::gradients: return "gradients";
    case Kind::moments: return "moments";
    case Kind::activations: return "activations";
    case Kind::buffers: return "buffers";
    case Kind::staging: return "staging";
  }
  return "?";
}

Allocator pages() { return {reserve_pages, release_pages}; }

std::size_t Ledger::total() const { return std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0}); }

Memory::Memory() : counting_(true) {}

Memory::Memory(const Ledger& planned, const Allocator& arenas, const Allocator& staging)
    : counting_(false), arenas_(arenas), staging_(staging), planned_(planned) {
  for (const Kind kind : kinds) {
    if (planned[kind] == 0) continue;
    base_[static_cast<std::size_t>(kind)] = static_cast<std::byte*>(allocator(kind).reserve(planned[kind], name_of(kind)));
  }
  with_arenas.push_back(this);
}

Memory::~Memory() {
  for (const Kind kind : kinds) {
    std::byte* const at = base_[static_cast<std::size_t>(kind)];
    if (at != nullptr) allocator(kind).release(at, planned_[kind]);
  }
  std::erase(with_arenas, this);
}

std::optional<Memory::Place> Memory::place_of(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const Memory* const memory : with_arenas) {
    Ledger before;  // bytes of the entries before this one
    for (const Entry& entry : memory->entries_) {
      const std::byte* const begin = memory->base_[static_cast<std::size_t>(entry.kind)] + before[entry.kind];
      if (begin <= at && at < begin + entry.bytes) {
        return Place{entry.kind, entry.label.c_str(), static_cast<std::size_t>(at - begin), entry.bytes};
      }
      before[entry.kind] += entry.bytes;
    }
  }
  return std::nullopt;
}

void* Memory::take_bytes(Kind kind, std::size_t bytes, const char* label) {
  const std::size_t at = taken_[kind];
  const std::size_t whole = round_up(bytes, border);
  if (!counting_) {
    require(at + whole <= planned_[kind], "the plan has no room for ", label, ": ", name_of(kind), " was planned with ",
            planned_[kind], " bytes, ", at, " are taken, ", whole, " more are asked for");
  }
  taken_[kind] = at + whole;
  entries_.push_back({kind, label, whole});
  return counting_ || whole == 0 ? nullptr : base_[static_cast<std::size_t>(kind)] + at;
}

}  // namespace shoal
