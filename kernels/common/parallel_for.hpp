// SPDX-License-Identifier: Apache-2.0
// How tuned kernels, and the portable ones beside them, use Kokkos and threads. A kernel is cut into work items by its shape
// alone, and each item is computed by one thread: so no result depends on the number of threads.
#pragma once

#include <omp.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <type_traits>

#include "shoal/base/mpi_free.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

/// Calls body(item), or body(item, thread) with 0 <= thread < threads(), for each item in 0 .. items-1. Kokkos Tools see one
/// kernel of this label. body must not throw.
template <class Body>
void on_threads(const char* label, std::size_t items, const Body& body) {
  const auto call = [&body](std::size_t item) {
    if constexpr (std::is_invocable_v<const Body&, std::size_t, int>) {
      body(item, omp_get_thread_num());
    } else {
      body(item);
    }
  };
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::size_t>>;
#ifdef KOKKOS_ENABLE_OPENMP
  constexpr bool kokkos_has_threads = true;
#else
  constexpr bool kokkos_has_threads = false;
#endif
  if (kokkos_has_threads || threads() == 1 || items == 1) {
    Kokkos::parallel_for(label, Policy(0, items), [&call](std::size_t item) { call(item); });
  } else {
    // A Kokkos with the Serial backend only (Debian's): it launches one item, which starts the threads.
    const int team = threads();
    Kokkos::parallel_for(label, Policy(0, 1), [&call, items, team](std::size_t) {
#pragma omp parallel for schedule(static) num_threads(team)
      for (std::size_t item = 0; item < items; ++item) call(item);
    });
  }
}

/// Runs a kernel by on_threads(). Communication in flight makes no progress until it has ended, so it should be at most
/// about 20 ms of work.
template <class Body>
void parallel_for(const char* label, std::size_t items, const Body& body) {
  {
    const MpiFree mpi_free;
    on_threads(label, items, body);
  }
  pump();
}

}  // namespace shoal::kernels
