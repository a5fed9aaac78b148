// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <exception>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"

namespace shoal {

namespace {
/// Alignment: a cache line, and an AVX-512 vector; or a sector of a disk.
constexpr std::size_t border(Where where) { return where == Where::nvme ? 4096 : 64; }

void* reserve_pages(std::size_t bytes, const char* what) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, "cannot reserve ", bytes, " bytes for ", what);
  // Huge pages mean fewer page faults and TLB misses. If the system has none, the hint is ignored.
  static_cast<void>(madvise(at, bytes, MADV_HUGEPAGE));
  return at;
}

void* reserve_addresses(std::size_t bytes, const char* what) {
  void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(at != MAP_FAILED, "cannot reserve ", bytes, " addresses for ", what);
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
Allocator addresses() { return {reserve_addresses, release_pages}; }

std::size_t Ledger::in(Where where) const {
  const auto& bytes = bytes_[static_cast<std::size_t>(where)];
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

std::size_t Ledger::images() const { return std::accumulate(images_.begin(), images_.end(), std::size_t{0}); }

Memory::Memory(Images images) : counting_(true), images_(images) {}

Memory::Memory(const Ledger& planned, const Allocator& arenas, const Allocator& staging, Images images)
    : counting_(false), images_(images), arenas_(arenas), staging_(staging), planned_(planned) {
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : kinds) {
      const std::size_t bytes = planned.at(where, kind);
      if (bytes == 0) continue;
      base_[static_cast<std::size_t>(where)][static_cast<std::size_t>(kind)] =
          static_cast<std::byte*>(allocator(where, kind).reserve(bytes, name_of(kind)));
    }
  }
  with_arenas.push_back(this);
}

Memory::~Memory() {
  for (const auto& [where, name] : where_names) {
    for (const Kind kind : kinds) {
      if (base(where, kind) == nullptr) continue;
      try {
        allocator(where, kind).release(base(where, kind), planned_.at(where, kind));
      } catch (const std::exception& error) {  // a destructor must not throw, and std::terminate() would not say why
        output::complain(text("shoal: when memory for ", name_of(kind), " was given back: ", error.what(), "\n"));
        std::abort();
      }
    }
  }
  std::erase(with_arenas, this);
}

const Allocator& Memory::allocator(Where where, Kind kind) const {
  if (where == Where::nvme) return disks_;
  return where == Where::cpu || kind == Kind::staging ? staging_ : arenas_;
}

std::optional<Memory::Place> Memory::place_of(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  for (const Memory* const memory : with_arenas) {
    Ledger before;  // bytes of the entries before this one, and of their images
    for (const Entry& entry : memory->entries_) {
      std::size_t& bytes_before = before.at(entry.where, entry.kind);
      const std::byte* const begin = memory->base(entry.where, entry.kind) + bytes_before;
      const bool has_image = memory->has_image(entry.where, entry.kind, entry.use);
      if (begin <= at && at < begin + entry.bytes) {
        const auto byte = static_cast<std::size_t>(at - begin);
        std::byte* const image = has_image ? memory->first_image(entry.kind) + before.images(entry.kind) + byte : nullptr;
        return Place{entry.kind, entry.label.c_str(), byte, entry.bytes, entry.use, image};
      }
      bytes_before += entry.bytes;
      if (has_image) before.images(entry.kind) += entry.bytes;
    }
  }
  return std::nullopt;
}

bool Memory::has_image(Where where, Kind kind, Use use) const {
  if (where != Where::device || kind == Kind::staging || use == Use::kernels) return false;
  return images_ == Images::messages || (images_ == Images::collectives && use == Use::collectives);
}

/// Images are at the end of the staging memory, kind by kind.
std::byte* Memory::first_image(Kind kind) const {
  std::byte* at = base(Where::device, Kind::staging) + planned_[Kind::staging];
  for (const Kind other : kinds) {
    if (other >= kind) at -= planned_.images(other);
  }
  return at;
}

void Memory::require_room(std::size_t taken, std::size_t more, std::size_t planned, const char* label,
                          const char* what) const {
  require(counting_ || taken + more <= planned, "the plan has no room for ", label, ": ", what, " was planned with ",
          planned, " bytes, ", taken, " are taken, ", more, " more are asked for");
}

void* Memory::take_bytes(Kind kind, std::size_t bytes, const char* label, Use use, Where where) {
  const bool staged = where == Where::device && kind == Kind::staging;
  const std::size_t at = taken_.at(where, kind) - (staged ? taken_.images() : 0);
  const std::size_t whole = round_up(bytes, border(where));
  require_room(at, whole, planned_.at(where, kind) - (staged ? planned_.images() : 0), label, name_of(kind));
  if (has_image(where, kind, use)) {
    require_room(taken_.images(kind), whole, planned_.images(kind), label, "memory of the host for its messages");
    taken_.images(kind) += whole;
    taken_[Kind::staging] += whole;
  }
  taken_.at(where, kind) += whole;
  entries_.push_back({kind, label, whole, use, where});
  return counting_ || whole == 0 ? nullptr : base(where, kind) + at;
}

}  // namespace shoal
