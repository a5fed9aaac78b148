// SPDX-License-Identifier: Apache-2.0
// How portable kernels are started: the only file that chooses where they run. On processors Kokkos runs them, on one thread
// or on OpenMP's threads, whichever its installation was built for. What nvcc compiles is launched on GPUs directly
// (cuda_launch.hpp). The kernels' text is the same. SHOAL_GPU_BY_KOKKOS compiles them for a Kokkos with CUDA, but no
// program launches them so (kernels/README.md).
//
// A kernel's body runs on the device. It is a SHOAL_LAMBDA, which captures values and pointers by copying them, and calls
// only SHOAL_FUNCTIONs and SHOAL_RULEs. It must not throw. nvcc does not accept it within another lambda, so a kernel that
// depends on a DType is a function template, which dispatch() calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"

namespace shoal::kernels::portable {

/// Most bytes that a body may capture. GPUs pass larger ones by a slower way.
inline constexpr std::size_t most_captured = 512;

/// Most items of for_teams(): the backends count teams with an int.
inline constexpr std::size_t most_items = INT32_MAX;
/// Fails if there are more.
void require_countable(const char* label, std::size_t items);

// Both backends define:
//
// for_elements(label, n, body)       calls body(i) for each i in 0 .. n-1, in any order and at the same time
// for_elements<at_a_time>(label, n, compute, store)
//                                    calls store(i, compute(i)). compute only reads, of what is written no more than
//                                    store(i, ...) writes: a thread of a GPU computes at_a_time elements, whose loads are
//                                    under way together, before it stores the first
// for_teams(label, items, scratch_bytes, body)
//                                    calls body(item, team) for each item in 0 .. items-1, on all threads of a team
//                                    (team.hpp) that share scratch_bytes of memory; fails if there are more than most_items
// copy(label, bytes, from, to)       copies bytes within the device's memory
//
// `label` names the kernel in traces. A launch on a CPU returns when the kernel has ended, and lets messages advance.

}  // namespace shoal::kernels::portable

#if defined(__CUDACC__) && !defined(SHOAL_GPU_BY_KOKKOS)
#include "kernels/portable/cuda_launch.hpp"
#else
#include "kernels/portable/kokkos_launch.hpp"
#endif

namespace shoal::kernels::portable {

/// Stores a number, rounded to T.
template <typename T>
struct Rounded {
  T* to;
  SHOAL_FUNCTION void operator()(std::size_t i, float value) const { to[i] = T(value); }
};

/// y[i] = value(i), rounded, for each i in 0 .. n-1. value may read y[i].
template <typename T, class Value>
void set_elements(const char* label, std::size_t n, T* y, const Value& value) {
  for_elements<sizeof(T) == 2 ? 16 : 8>(label, n, value, Rounded<T>{y});
}

}  // namespace shoal::kernels::portable
