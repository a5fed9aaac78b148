// SPDX-License-Identifier: Apache-2.0
// The one way into Kokkos and threads. A kernel is cut into tiles by its shape alone, and a tile is computed by one thread:
// so no result depends on the number of threads.
#pragma once

#include <omp.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <type_traits>

#include "shoal/base/absence.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

/// Calls body(tile), or body(tile, thread) with 0 <= thread < threads(), for each tile of 0 .. tiles-1: one kernel for
/// Kokkos Tools, in which open communication cannot move (so at most about 20 ms of work). body must not throw.
template <class Body>
void for_tiles(const char* label, std::size_t tiles, const Body& body) {
  const auto call = [&body](std::size_t tile) {
    if constexpr (std::is_invocable_v<const Body&, std::size_t, int>) {
      body(tile, omp_get_thread_num());
    } else {
      body(tile);
    }
  };
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::size_t>>;
#ifdef KOKKOS_ENABLE_OPENMP
  constexpr bool kokkos_has_threads = true;
#else
  constexpr bool kokkos_has_threads = false;
#endif
  {
    const Absence absence;
    if (kokkos_has_threads || threads() == 1 || tiles == 1) {  // no team for what one thread does
      Kokkos::parallel_for(label, Policy(0, tiles), [&call](std::size_t tile) { call(tile); });
    } else {
      // A Kokkos with the Serial backend only (Debian's) launches one item, and the team is made inside it.
      const int team = threads();
      Kokkos::parallel_for(label, Policy(0, 1), [&call, tiles, team](std::size_t) {
#pragma omp parallel for schedule(static) num_threads(team)
        for (std::size_t tile = 0; tile < tiles; ++tile) call(tile);
      });
    }
  }
  pump();
}

}  // namespace shoal::kernels
