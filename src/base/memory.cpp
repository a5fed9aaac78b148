// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/memory.hpp"

#include <sys/mman.h>

#include <numeric>

#include "shoal/base/error.hpp"

namespace shoal {

namespace {
constexpr std::size_t border = 64;  // alignment: a cache line, and an AVX-512 vector

std::byte* reserve(std::size_t bytes, Kind kind) {
  if (bytes == 0) return nullptr;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, "cannot reserve ", bytes, " bytes for ", name_of(kind));
  // Huge pages mean fewer page faults and TLB misses. If the system has none, the hint is ignored.
  static_cast<void>(madvise(at, bytes, MADV_HUGEPAGE));
  return static_cast<std::byte*>(at);
}
}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::parameters: return "parameters";
    case Kind::master: return "master";
    case Kind::gradients: return "gradients";
    case Kind::moments: return "moments";
    case Kind::activations: return "activations";
    case Kind::buffers: return "buffers";
  }
  return "?";
}

std::size_t Ledger::total() const { return std::accumulate(bytes_.begin(), bytes_.end(), std::size_t{0}); }

Memory::Memory() : counting_(true) {}

Memory::Memory(const Ledger& planned) : counting_(false), planned_(planned) {
  for (const Kind kind : kinds) base_[static_cast<std::size_t>(kind)] = reserve(planned[kind], kind);
}

Memory::~Memory() {
  for (const Kind kind : kinds) {
    std::byte* const at = base_[static_cast<std::size_t>(kind)];
    if (at != nullptr) munmap(at, planned_[kind]);
  }
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
