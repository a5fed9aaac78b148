// SPDX-License-Identifier: Apache-2.0
// Launches by Kokkos, from version 3.4 on. See launch.hpp.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/portable/team.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/base/pump.hpp"
#ifdef SHOAL_BESIDE_TUNED
#include "kernels/common/parallel_for.hpp"
#endif
#ifdef SHOAL_SIMULATED
#include "shoal/device/simulated.hpp"
#include "shoal/device/timing.hpp"
#endif

#if defined(__CUDACC__) && !defined(KOKKOS_ENABLE_CUDA)
#error "SHOAL_GPU_BY_KOKKOS: this Kokkos was built without CUDA"
#endif

#define SHOAL_LAMBDA KOKKOS_LAMBDA

namespace shoal::kernels::portable {

#ifdef SHOAL_BESIDE_TUNED
using Space = Kokkos::DefaultHostExecutionSpace;
#else
using Space = Kokkos::DefaultExecutionSpace;
#endif
inline constexpr bool on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible;

/// Threads of a team. On a CPU one thread does the work of a team, and the threads take different items; the tests try teams
/// of several threads there, too. All launches after set_team_size() use the new size.
inline int& team_size_of_launches() {
  static int size = on_host ? 1 : 128;
  return size;
}
inline void set_team_size(int threads) { team_size_of_launches() = threads; }

class Team : public TeamOperations<Team> {
 public:
  using Member = Kokkos::TeamPolicy<Space>::member_type;

  SHOAL_FUNCTION explicit Team(const Member& member, std::size_t bytes) : member_(member) {
    auto* const at = static_cast<std::byte*>(member.team_scratch(0).get_shmem(static_cast<int>(bytes)));
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    memory_ = at + (round_up(address, alignment) - address);
  }
  /// Bytes that Kokkos is asked for, for a kernel that wants `bytes`.
  static constexpr std::size_t bytes_for(std::size_t bytes) { return alignment + for_chains + bytes; }

  SHOAL_FUNCTION std::size_t thread() const { return static_cast<std::size_t>(member_.team_rank()); }
  SHOAL_FUNCTION std::size_t threads() const { return static_cast<std::size_t>(member_.team_size()); }
  SHOAL_FUNCTION void sync() const { member_.team_barrier(); }
  SHOAL_FUNCTION float* chain_sums() const { return reinterpret_cast<float*>(memory_); }
  SHOAL_FUNCTION std::byte* scratch() const { return memory_ + for_chains; }

 private:
  static constexpr std::size_t alignment = 64, for_chains = rules::chains * sizeof(float);

  const Member& member_;
  std::byte* memory_;
};

/// Starts a kernel: at once, or when the simulated device comes to it.
template <class Launch>
void enqueue([[maybe_unused]] const char* label, const Launch& launch) {
#ifdef SHOAL_SIMULATED
  {
    const device::Timed timed(label);
    device::simulated::enqueue(launch);
  }
#else
  {
    const MpiFree mpi_free;
    launch();
  }
#endif
  pump();
}

/// Calls f(item) for each item, on a CPU's threads. A program with tuned kernels uses their threads, which exist even if
/// Kokkos was built without threads.
#ifdef SHOAL_BESIDE_TUNED
using kernels::on_threads;
#else
template <class F>
void on_threads(const char* label, std::size_t items, const F& f) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>(0, items), f);
}
#endif

template <class Body>
void for_elements(const char* label, std::size_t n, const Body& body) {
  static_assert(sizeof(Body) <= most_captured);
  enqueue(label, [=] {
    if constexpr (on_host) {
      // Runs of elements that compilers can make vectors of: no element depends on another one.
      constexpr std::size_t run = 16384;
      on_threads(label, (n + run - 1) / run, [=](std::size_t index) {
        const std::size_t end = std::min(n, (index + 1) * run);
        const Body own = body;  // a local copy, which no store of the loop can change, stays in registers
        SHOAL_INDEPENDENT
        for (std::size_t i = index * run; i < end; ++i) own(i);
      });
    } else {
      Kokkos::parallel_for(label, Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>>(0, n), body);
    }
  });
}

/// Both bodies as one: only on a GPU are they better apart.
template <class Compute, class Store>
struct ComputeAndStore {
  Compute compute;
  Store store;
  SHOAL_FUNCTION void operator()(std::size_t i) const { store(i, compute(i)); }
};
template <unsigned at_a_time = 1, class Compute, class Store>
void for_elements(const char* label, std::size_t n, const Compute& compute, const Store& store) {
  for_elements(label, n, ComputeAndStore<Compute, Store>{compute, store});
}

/// Kokkos calls this on each thread of a team. It is a class, because nvcc does not accept a lambda for the device that is
/// written within another lambda, such as the one that enqueue() gets.
template <class Body>
struct TeamBody {
  Body body;
  std::size_t bytes;
  SHOAL_FUNCTION void operator()(const Team::Member& member) const {
    const Team team(member, bytes);
    body(static_cast<std::size_t>(member.league_rank()), team);
  }
};

template <class Body>
void for_teams(const char* label, std::size_t items, std::size_t scratch_bytes, const Body& body) {
  static_assert(sizeof(Body) <= most_captured);
  if (items == 0) return;
  require_countable(label, items);
  const std::size_t bytes = Team::bytes_for(scratch_bytes);
  enqueue(label, [=] {
    auto policy = Kokkos::TeamPolicy<Space>(static_cast<int>(items), team_size_of_launches());
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(bytes)));
    Kokkos::parallel_for(label, policy, TeamBody<Body>{body, bytes});
  });
}

/// Copies bytes within the device's memory. A template, so that nvcc does not see a lambda within a lambda where it compiles
/// for a GPU.
template <bool host = on_host>
void copy(const char* label, std::size_t bytes, const void* from, void* to) {
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  if constexpr (host) {
    // Parts of 1 MiB are large enough for the C library to use non-temporal stores.
    constexpr std::size_t part = std::size_t{1} << 20U;
    enqueue(label, [=] {
      on_threads(label, (bytes + part - 1) / part, [=](std::size_t i) {
        std::memcpy(target + i * part, source + i * part, std::min(part, bytes - i * part));
      });
    });
  } else {
    using Bytes = Kokkos::View<std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    using ConstBytes = Kokkos::View<const std::byte*, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Kokkos::deep_copy(Space(), Bytes(target, bytes), ConstBytes(source, bytes));
  }
}

}  // namespace shoal::kernels::portable
