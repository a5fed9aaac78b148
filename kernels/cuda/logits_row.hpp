// SPDX-License-Identifier: Apache-2.0
// What a block of a GPU does with one row of logits: its maximum, its exponentials and their sum.
#pragma once

#include <cuda_pipeline.h>

#include <limits>

#include "kernels/cuda/wide_access.hpp"
#include "kernels/rules/functions.hpp"
#include "kernels/rules/row_sums.hpp"

namespace shoal::kernels::cuda {

inline constexpr unsigned warp = 32, threads = 1024, summing = rules::chains, computing = threads - summing;
inline constexpr unsigned per_thread = 8, tile = computing * per_thread;  // exponentials
inline constexpr unsigned everyone = 0xffffffffU;
inline constexpr float lowest = -std::numeric_limits<float>::infinity();

__host__ __device__ constexpr unsigned padded_row(unsigned V) { return (V + summing - 1) / summing * summing; }

/// Replaces each x, which must be 0 or less, or NaN, by e^x, with the bits of rules::exp: where 2^n is far from subnormal,
/// nothing needs to be clamped, and n can be added to the exponent.
template <unsigned width>
__device__ void exponentials(Pack<float, width>& x) {
  bool moderate = true;
#pragma unroll
  for (unsigned c = 0; c < width; ++c) moderate = moderate && x.at[c] > -80.0F;
  if (!moderate) {
#pragma unroll
    for (unsigned c = 0; c < width; ++c) x.at[c] = rules::exp(x.at[c]);
    return;
  }
#pragma unroll
  for (unsigned c = 0; c < width; ++c) {
    const float shifted = fmaf(x.at[c], rules::log2e, rules::to_integer);
    const float p = rules::exp_of_rest(rules::rest_of(x.at[c], shifted - rules::to_integer));
    x.at[c] = __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23U));
  }
}

/// Elements i ... i + width - 1 of a row of V, which goes on with numbers that add nothing to the sum.
template <unsigned width>
__device__ Pack<float, width> load_padded(const float* x, unsigned i, unsigned V) {
  if (i + width <= V) return load<width>(x + i);
  Pack<float, width> some;
#pragma unroll
  for (unsigned c = 0; c < width; ++c) some.at[c] = i + c < V ? x[i + c] : lowest;
  return some;
}

/// What the threads of a block exchange.
struct Shared {
  float largest[threads / warp];
  float chains[rules::chains];
  float sum;
};

/// Calls pack(i) for the whole packs of a row of V and element(i) for what is left before `end`, distributed over the
/// threads.
template <unsigned width, class Pack, class Element>
__device__ void each(unsigned V, unsigned end, const Pack& pack, const Element& element) {
  const unsigned whole = V / width * width;
#pragma unroll 4
  for (unsigned i = threadIdx.x * width; i < whole; i += threads * width) pack(i);
  for (unsigned i = whole + threadIdx.x; i < end; i += threads) element(i);
}

/// Copies an element that is left, or writes the one that load_padded() would give.
inline __device__ void start_copy_of_left(const float* x, unsigned i, unsigned V, float* row) {
  if (i < V) {
    __pipeline_memcpy_async(row + i, x + i, sizeof(float));
  } else {
    row[i] = lowest;
  }
}

/// The largest element. If the row is kept, each thread has started the copies of the elements that it reads here.
template <unsigned width, bool kept>
__device__ float largest_of(const float* x, unsigned V, const float* row, Shared& shared) {
  if (kept) __pipeline_wait_prior(0);
  const float* const from = kept ? row : x;
  float largest = lowest;
  each<width>(
      V, V,
      [&](unsigned i) {
        const auto some = load<width>(from + i);
#pragma unroll
        for (unsigned c = 0; c < width; ++c) largest = fmaxf(largest, some.at[c]);
      },
      [&](unsigned i) { largest = fmaxf(largest, from[i]); });
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, static_cast<int>(distance)));
  }
  if (threadIdx.x % warp == 0) shared.largest[threadIdx.x / warp] = largest;
  __syncthreads();
  largest = threadIdx.x % warp < threads / warp ? shared.largest[threadIdx.x % warp] : lowest;
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, static_cast<int>(distance)));
  }
  return largest;
}

/// The sum of e^(x[i] - largest), in the order of rules/row_sums.hpp. The first threads add, the others compute
/// exponentials, in place if the row is kept, otherwise alternately in two tiles.
template <unsigned width, bool kept>
__device__ float sum_of_exponentials(const float* x, unsigned V, unsigned padded, float largest, float* row,
                                     Shared& shared) {
  const unsigned tiles = (padded + tile - 1) / tile;
  float sum = 0.0F;
  for (unsigned t = 0; t <= tiles; ++t) {
    if (threadIdx.x >= summing) {
#pragma unroll
      for (unsigned k = 0; k < per_thread / width; ++k) {
        const unsigned in_tile = (k * computing + threadIdx.x - summing) * width, i = t * tile + in_tile;
        if (i >= padded) continue;
        float* const at = kept ? row + i : row + t % 2 * tile + in_tile;
        Pack<float, width> e = kept ? load<width>(at) : load_padded<width>(x, i, V);
#pragma unroll
        for (unsigned c = 0; c < width; ++c) e.at[c] -= largest;
        exponentials(e);
        store(e, at);
      }
    } else if (t > 0) {
      const unsigned begin = (t - 1) * tile, count = min(tile, padded - begin) / summing;
      const float* const at = (kept ? row + begin : row + (t - 1) % 2 * tile) + threadIdx.x;
#pragma unroll 12
      for (unsigned k = 0; k < count; ++k) sum += at[k * summing];
    }
    __syncthreads();
  }
  if (threadIdx.x < summing) shared.chains[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < warp) {
    const float* const s = shared.chains + threadIdx.x % 16;
    float both = (s[0] + s[16]) + (s[32] + s[48]);
    for (unsigned distance = 8; distance > 0; distance /= 2) both += __shfl_down_sync(everyone, both, distance, 16);
    if (threadIdx.x == 0) shared.sum = both;
  }
  __syncthreads();
  return shared.sum;
}

}  // namespace shoal::kernels::cuda
