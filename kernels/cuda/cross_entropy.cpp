// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU: one block for each row. On an H200 the portable kernel reached 13 % of a copy's rate: it reads a
// row three times, computes each exponential twice, and adds with half of its threads.
//
// Here a row is read once, into shared memory, if it fits. All warps but two compute exponentials in place, in tiles; those
// two add the tile before, a thread for each chain of rules/row_sums.hpp. Then the exponentials become the gradient. A row
// that does not fit is read again for each of these steps.
#include "shoal/kernels/cross_entropy.hpp"

#include <limits>

#include "../portable/launch.hpp"
#include "../rules/functions.hpp"
#include "../rules/row_sums.hpp"
#include "wide_access.hpp"

namespace shoal::kernels {

namespace {

constexpr unsigned warp = 32, summing = rules::chains, most_threads = 1024;
constexpr unsigned per_thread = 4;  // exponentials of a tile
constexpr unsigned everyone = 0xffffffffU;
constexpr float lowest = -std::numeric_limits<float>::infinity();

__host__ __device__ constexpr unsigned tile_of(unsigned threads) { return (threads - summing) * per_thread; }

/// e^x for x <= 0 or NaN, with the bits of rules::exp. If 2^n is far from subnormal, it is multiplied by adding to the
/// exponent, and clamping changes nothing.
__device__ float exp_below_zero(float x) {
  if (!(x > -80.0F)) return rules::exp(x);
  const float shifted = fmaf(x, rules::log2e, rules::to_integer), n = shifted - rules::to_integer;
  const float p = rules::exp_of_rest(rules::rest_of(x, n));
  return __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23U));
}

/// Elements i ... i + width - 1 of a row of V, which goes on with numbers that change neither the maximum nor the sum.
template <unsigned width>
__device__ cuda::Pack<float, width> load_padded(const float* x, unsigned i, unsigned V) {
  if (i + width <= V) return cuda::load<width>(x + i);
  cuda::Pack<float, width> some;
#pragma unroll
  for (unsigned c = 0; c < width; ++c) some.at[c] = i + c < V ? x[i + c] : lowest;
  return some;
}

/// What the threads of a block exchange.
struct Shared {
  float largest[most_threads / warp];
  float chains[rules::chains];
  float sum, target_logit;
};

/// The largest element; keeps the row if `kept` is not null.
template <unsigned width>
__device__ float largest_of(const float* x, unsigned V, unsigned padded, float* kept, Shared& shared) {
  constexpr unsigned at_once = 32 / width;
  float largest = lowest;
  for (unsigned first = threadIdx.x * width; first < padded; first += at_once * blockDim.x * width) {
    cuda::Pack<float, width> loaded[at_once];
#pragma unroll
    for (unsigned k = 0; k < at_once; ++k) {
      const unsigned i = first + k * blockDim.x * width;
      if (i < padded) loaded[k] = load_padded<width>(x, i, V);
    }
#pragma unroll
    for (unsigned k = 0; k < at_once; ++k) {
      const unsigned i = first + k * blockDim.x * width;
      if (i >= padded) continue;
#pragma unroll
      for (unsigned c = 0; c < width; ++c) largest = fmaxf(largest, loaded[k].at[c]);
      if (kept != nullptr) cuda::store(loaded[k], kept + i);
    }
  }
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, static_cast<int>(distance)));
  }
  if (threadIdx.x % warp == 0) shared.largest[threadIdx.x / warp] = largest;
  __syncthreads();
  largest = threadIdx.x % warp < blockDim.x / warp ? shared.largest[threadIdx.x % warp] : lowest;
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(everyone, largest, static_cast<int>(distance)));
  }
  return largest;
}

/// The sum of e^(x[i] - largest), in the order of rules/row_sums.hpp. The first threads add, the others compute
/// exponentials, in place if the row is kept, otherwise in two tiles by turns.
template <unsigned width, bool kept>
__device__ float sum_of_exponentials(const float* x, unsigned V, unsigned padded, float largest, float* row,
                                     Shared& shared) {
  const unsigned tile = tile_of(blockDim.x), tiles = (padded + tile - 1) / tile;
  float sum = 0.0F;
  for (unsigned t = 0; t <= tiles; ++t) {
    if (threadIdx.x >= summing) {
      const unsigned computing = blockDim.x - summing, end = min((t + 1) * tile, padded);
#pragma unroll
      for (unsigned k = 0; k < per_thread / width; ++k) {
        const unsigned in_tile = (k * computing + threadIdx.x - summing) * width, i = t * tile + in_tile;
        if (i >= end) continue;
        float* const at = kept ? row + i : row + t % 2 * tile + in_tile;
        cuda::Pack<float, width> e = kept ? cuda::load<width>(at) : load_padded<width>(x, i, V);
#pragma unroll
        for (unsigned c = 0; c < width; ++c) e.at[c] = exp_below_zero(e.at[c] - largest);
        cuda::store(e, at);
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

template <typename T, unsigned width, bool kept>
__global__ void __launch_bounds__(most_threads)
    run(unsigned V, CrossEntropyInputs in, float scale, CrossEntropyOutputs<T> out) {
  __shared__ Shared shared;
  extern __shared__ __align__(16) float memory[];
  const std::size_t at = blockIdx.x * in.stride;
  const float* const x = in.logits + at;
  const unsigned padded = (V + summing - 1) / summing * summing;
  const auto target = static_cast<unsigned>(in.targets[blockIdx.x]);
  if (threadIdx.x == 0) shared.target_logit = x[target];
  const float largest = largest_of<width>(x, V, padded, kept ? memory : nullptr, shared);
  const float sum = sum_of_exponentials<width, kept>(x, V, padded, largest, memory, shared);
  if (threadIdx.x == 0) out.losses[blockIdx.x] = rules::log(sum) + (largest - shared.target_logit);
  if (out.dlogits == nullptr) return;
  const float factor = scale / sum;
  T* const dx = out.dlogits + at;
#pragma unroll 4
  for (unsigned i = threadIdx.x * width; i < in.stride; i += blockDim.x * width) {
    cuda::Pack<T, width> gradient{};
    if (i < V) {
      const auto e = kept ? cuda::load<width>(memory + i) : load_padded<width>(x, i, V);
#pragma unroll
      for (unsigned c = 0; c < width; ++c) {
        const float probability = (kept ? e.at[c] : exp_below_zero(e.at[c] - largest)) * factor;
        if (i + c < V) gradient.at[c] = T(i + c == target ? probability - scale : probability);
      }
    }
    cuda::store(gradient, dx + i);
  }
}

template <typename T, unsigned width, bool kept>
void start(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out,
           unsigned threads, std::size_t bytes) {
  portable::detail::check(label, cudaFuncSetAttribute(run<T, width, kept>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                      static_cast<int>(bytes)));
  const device::Timed timed(label);
  run<T, width, kept><<<static_cast<unsigned>(shape.rows), threads, bytes, portable::detail::stream()>>>(
      static_cast<unsigned>(shape.C), in, scale, out);
}

template <typename T, unsigned width>
void launch(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale,
            const CrossEntropyOutputs<T>& out) {
  int device = 0, most = 0;
  portable::detail::check(label, cudaGetDevice(&device));
  portable::detail::check(label, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  constexpr std::size_t short_row = 8192;
  const unsigned threads = shape.C > short_row ? most_threads : 256;
  const std::size_t row = (shape.C + summing - 1) / summing * summing * sizeof(float);
  if (row + sizeof(Shared) <= static_cast<std::size_t>(most)) {
    start<T, width, true>(label, shape, in, scale, out, threads, row);
  } else {
    start<T, width, false>(label, shape, in, scale, out, threads, 2 * tile_of(threads) * sizeof(float));
  }
}

template <typename T>
void launch(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale,
            const CrossEntropyOutputs<T>& out) {
  if (shape.rows == 0) return;
  portable::require_countable(label, shape.rows);
  constexpr unsigned width = 4;
  if (in.stride % width == 0 && cuda::aligned<width>(in.logits) && cuda::aligned<width>(out.dlogits)) {
    launch<T, width>(label, shape, in, scale, out);
  } else {
    launch<T, 1>(label, shape, in, scale, out);
  }
  portable::detail::launched(label);
}

}  // namespace

void cross_entropy_forward(RowShape shape, const CrossEntropyInputs& in, float* losses) {
  launch<float>("cross_entropy_forward", shape, in, 0.0F, {.losses = losses, .dlogits = nullptr});
}

template <typename T>
void cross_entropy(RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out) {
  launch("cross_entropy", shape, in, scale, out);
}

}  // namespace shoal::kernels

#include "../instances/cross_entropy.hpp"
