// SPDX-License-Identifier: Apache-2.0
// A warp that has a row in its registers. A step is 64 neighbouring elements, two for each thread, so that each thread has
// two chains of rules/row_sums.hpp.
#pragma once

#include <utility>

#include "kernels/cuda/wide_access.hpp"
#include "kernels/portable/launch.hpp"
#include "shoal/kernels/rows.hpp"

namespace shoal::kernels::cuda {

inline constexpr unsigned warp = 32, per_step = 2 * warp;
inline constexpr unsigned everyone = 0xffffffffU;
static_assert(per_step == rules::chains);

/// Where this thread's two elements of a step are. They are neighbours if rows begin at an even element, so that both are
/// read at once; otherwise they lie 32 elements apart.
template <bool paired>
struct Places {
  static __device__ unsigned first(unsigned step) { return step * per_step + (paired ? 2 : 1) * (threadIdx.x % warp); }
  static constexpr unsigned distance = paired ? 1 : warp;
};

struct Two {
  float a, b;
};

/// Which elements a row has. fills: all that are asked for, so that nothing is compared, and loads need not wait for a free
/// predicate.
template <bool fills>
struct Width {
  unsigned C;
  __device__ bool has(unsigned i) const { return fills || i < C; }
};

inline __device__ Two widen(Two two) { return two; }
template <typename T>
__device__ Two widen(const Pack<T, 2>& pair) {
  return {static_cast<float>(pair.at[0]), static_cast<float>(pair.at[1])};
}

/// This thread's two elements of a step; 0 beyond the row.
template <bool paired, typename T, class W>
__device__ Pack<T, 2> load_pair(const T* from, unsigned step, W width) {
  const unsigned first = Places<paired>::first(step), second = first + Places<paired>::distance;
  if constexpr (paired) {
    return width.has(first) ? cuda::load<2>(from + first) : Pack<T, 2>{};
  } else {
    return {{width.has(first) ? from[first] : T{}, width.has(second) ? from[second] : T{}}};
  }
}
template <bool paired, typename T, class W>
__device__ Two load_two(const T* from, unsigned step, W width) {
  return widen(load_pair<paired>(from, step, width));
}

template <bool paired, typename T, class W>
__device__ void store_two(const Two& two, T* to, unsigned step, W width) {
  const unsigned first = Places<paired>::first(step), second = first + Places<paired>::distance;
  if constexpr (paired) {
    if (width.has(first)) cuda::store(Pack<T, 2>{{T(two.a), T(two.b)}}, to + first);
  } else {
    if (width.has(first)) to[first] = T(two.a);
    if (width.has(second)) to[second] = T(two.b);
  }
}

/// The values f(step) of a row, in registers, or, with steps = 0, of one that is too long for them: computed each time.
template <unsigned steps, class F>
class Kept {
 public:
  __device__ explicit Kept(const F& f) : f_(f) {
    if constexpr (steps > 0) {
#pragma unroll
      for (unsigned step = 0; step < steps; ++step) kept_[step] = f(step);
    }
  }
  __device__ Two operator()(unsigned step) const {
    if constexpr (steps > 0) {
      return widen(kept_[step]);
    } else {
      return widen(f_(step));
    }
  }

 private:
  F f_;
  decltype(std::declval<F>()(0U)) kept_[steps == 0 ? 1 : steps];
};
template <unsigned steps, class F>
__device__ Kept<steps, F> keep(const F& f) {
  return Kept<steps, F>(f);
}
/// The elements of a row, for a kernel that computes with them several times.
template <class S, typename T>
__device__ auto keep_row(const T* from, Width<S::fills> width) {
  return keep<S::steps>([=](unsigned step) { return load_two<S::paired>(from, step, width); });
}
/// The same in fewer registers, for a kernel that needs them once, after its first store: a load that stands behind a store
/// waits for it, since both may be to one address.
template <class S, typename T>
__device__ auto keep_narrow(const T* from, Width<S::fills> width) {
  return keep<S::steps>([=](unsigned step) { return load_pair<S::paired>(from, step, width); });
}

/// f(step) for each step.
template <unsigned steps, class F>
__device__ void each_step(unsigned C, const F& f) {
  if constexpr (steps == 0) {
    for (unsigned step = 0; step * per_step < C; ++step) f(step);
  } else {
#pragma unroll
    for (unsigned step = 0; step < steps; ++step) f(step);
  }
}

inline __device__ float from_above(float value, unsigned distance) { return __shfl_down_sync(everyone, value, distance); }

/// The sum of 64 chains, to all threads, in the order of rules::join_chains(). Thread l has chains l and l + 32.
inline __device__ float join_halves(Two sums) {
  sums.a += from_above(sums.a, 16);
  sums.b += from_above(sums.b, 16);
  float total = sums.a + sums.b;
  for (unsigned distance = 8; distance > 0; distance /= 2) total += from_above(total, distance);
  return __shfl_sync(everyone, total, 0);
}

/// The same, where thread l has chains 2 l and 2 l + 1.
inline __device__ float join_pairs(Two sums) {
  const unsigned distances[] = {8, 16, 4, 2, 1};
  for (const unsigned distance : distances) {
    sums.a += from_above(sums.a, distance);
    sums.b += from_above(sums.b, distance);
  }
  return __shfl_sync(everyone, sums.a + sums.b, 0);
}

/// The sum over the row. term(step, sums) adds the two elements of the step to the two sums. Elements beyond the row do not
/// count.
template <class S, class Term>
__device__ float sum(Width<S::fills> width, const Term& term) {
  Two sums{};
  each_step<S::steps>(width.C, [&](unsigned step) {
    const unsigned first = Places<S::paired>::first(step), second = first + Places<S::paired>::distance;
    Two more = sums;
    term(step, more);
    if (width.has(first)) sums.a = more.a;
    if (width.has(second)) sums.b = more.b;
  });
  return S::paired ? join_pairs(sums) : join_halves(sums);
}

/// How a row is read: the steps that are kept in registers, whether neighbours are read at once, and whether the row fills
/// all steps.
template <unsigned count, bool pairs, bool full = false>
struct Steps {
  static constexpr unsigned steps = count;
  static constexpr bool paired = pairs, fills = full;
};
/// f(Steps) for rows of C elements. Those of widths that models have fill their steps.
template <class F>
void with_steps(unsigned C, bool paired, const F& f) {
  if (!paired) return f(Steps<0, false>());
  switch (C) {
    case 12 * per_step: return f(Steps<12, true, true>());
    case 16 * per_step: return f(Steps<16, true, true>());
    case 20 * per_step: return f(Steps<20, true, true>());
    case 25 * per_step: return f(Steps<25, true, true>());
    case 32 * per_step: return f(Steps<32, true, true>());
    default: break;
  }
  if (C <= 16 * per_step) return f(Steps<16, true>());
  if (C <= 32 * per_step) return f(Steps<32, true>());
  f(Steps<0, true>());
}

/// Whether all rows, which follow one another, begin at pairs.
template <typename... Ts>
bool pairs_fit(unsigned C, const Ts*... rows) {
  return C % 2 == 0 && (aligned<2>(rows) && ...);
}

/// The row of this warp, in blocks of rows_per_block.
inline constexpr unsigned rows_per_block = 4;
inline __device__ unsigned own_row() { return blockIdx.x * rows_per_block + threadIdx.x / warp; }

/// For rows of this shape: start(Steps, blocks, threads, stream).
template <class Start>
void launch(const char* label, RowShape shape, bool paired, const Start& start) {
  if (shape.rows == 0) return;
  portable::require_countable(label, shape.rows);
  {
    const device::Timed timed(label);
    with_steps(static_cast<unsigned>(shape.C), paired, [&](auto steps) {
      start(steps, static_cast<unsigned>(portable::parts(shape.rows, rows_per_block)), rows_per_block * warp,
            portable::detail::stream());
    });
  }
  portable::detail::launched(label);
}

}  // namespace shoal::kernels::cuda
