// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU: a block takes rows one after another. On an H200 the portable kernel reached 13 % of a copy's
// rate: it reads a row three times, computes each exponential twice, and adds with half of its threads.
//
// Here a row is copied once, asynchronously, into shared memory, if it fits. All warps but two compute exponentials in
// place, in tiles; those two add the tile before, a thread for each chain of rules/row_sums.hpp. Then the exponentials
// become the gradient, and the next row is copied to where each of them was. A row that does not fit is read again for each
// step.
#include "shoal/kernels/cross_entropy.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/common/instances.hpp"
#include "kernels/cuda/logits_row.hpp"
#include "kernels/portable/launch.hpp"

namespace shoal::kernels {

namespace {

using namespace cuda;

template <typename T, unsigned width, bool kept>
__global__ void __launch_bounds__(threads)
    run(unsigned rows, unsigned V, CrossEntropyInputs in, float scale, CrossEntropyOutputs<T> out) {
  __shared__ Shared shared;
  extern __shared__ __align__(16) float memory[];
  const unsigned padded = padded_row(V), stride = static_cast<unsigned>(in.stride);
  const auto copy_row = [&](const float* x) {
    each<width>(
        V, padded, [=](unsigned i) { __pipeline_memcpy_async(memory + i, x + i, width * sizeof(float)); },
        [=](unsigned i) { start_copy_of_left(x, i, V, memory); });
    __pipeline_commit();
  };
  if (kept) copy_row(in.logits + blockIdx.x * in.stride);
  for (unsigned index = blockIdx.x; index < rows; index += gridDim.x) {
    const float *const x = in.logits + index * in.stride, *const next = x + gridDim.x * in.stride;
    const bool more = kept && index + gridDim.x < rows;
    const auto target = static_cast<unsigned>(in.targets[index]);
    float target_logit = 0.0F;
    if (threadIdx.x == 0) target_logit = x[target];  // before it is written over
    const float largest = largest_of<width, kept>(x, V, memory, shared);
    const float sum = sum_of_exponentials<width, kept>(x, V, padded, largest, memory, shared);
    if (threadIdx.x == 0) out.losses[index] = rules::log(sum) + (largest - target_logit);
    if (out.dlogits == nullptr) {
      if (more) copy_row(next);
      continue;
    }
    const float factor = scale / sum;
    T* const dx = out.dlogits + index * in.stride;
    each<width>(
        V, max(padded, stride),
        [&](unsigned i) {
          auto e = load<width>((kept ? memory : x) + i);
          if (!kept) {
#pragma unroll
            for (unsigned c = 0; c < width; ++c) e.at[c] -= largest;
            exponentials(e);
          }
          Pack<T, width> gradient;
#pragma unroll
          for (unsigned c = 0; c < width; ++c) gradient.at[c] = T(e.at[c] * factor);
          if (target - i < width) {
#pragma unroll
            for (unsigned c = 0; c < width; ++c) {
              if (i + c == target) gradient.at[c] = T(e.at[c] * factor - scale);
            }
          }
          store(gradient, dx + i);
          if (more) __pipeline_memcpy_async(memory + i, next + i, width * sizeof(float));
        },
        [&](unsigned i) {
          if (i < V) {
            const float e = kept ? memory[i] : rules::exp(x[i] - largest), probability = e * factor;
            dx[i] = T(i == target ? probability - scale : probability);
          } else if (i < stride) {
            dx[i] = T();
          }
          if (more && i < padded) start_copy_of_left(next, i, V, memory);
        });
    if (kept) __pipeline_commit();
  }
}

/// What a launch has to know of the GPU, of which a process uses only one.
struct Gpu {
  int units = 0;
  std::size_t shared_bytes = 0;  // at most, of a block
};
const Gpu& gpu(const char* label) {
  static const Gpu known = [label] {
    int device = 0, units = 0, bytes = 0;
    portable::detail::check(label, cudaGetDevice(&device));
    portable::detail::check(label, cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device));
    portable::detail::check(label, cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    return Gpu{units, static_cast<std::size_t>(bytes)};
  }();
  return known;
}

/// Prepares a kernel for blocks with so many bytes of shared memory. Returns how many of them run at the same time.
template <typename T, unsigned width, bool kept>
unsigned blocks_at_once(const char* label, std::size_t bytes) {
  static std::size_t known_for = SIZE_MAX;
  static unsigned known = 0;
  if (known_for != bytes) {
    portable::detail::check(label, cudaFuncSetAttribute(run<T, width, kept>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        static_cast<int>(bytes)));
    int blocks = 0;
    portable::detail::check(label, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, run<T, width, kept>,
                                                                                 static_cast<int>(threads), bytes));
    known = static_cast<unsigned>(std::max(1, gpu(label).units * blocks));
    known_for = bytes;
  }
  return known;
}

template <typename T, unsigned width, bool kept>
void start(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale, const CrossEntropyOutputs<T>& out,
           std::size_t bytes) {
  const auto rows = static_cast<unsigned>(shape.rows);
  const unsigned at_once = blocks_at_once<T, width, kept>(label, bytes);
  const device::Timed timed(label);
  run<T, width, kept><<<std::min(rows, at_once), threads, bytes, portable::detail::stream()>>>(
      rows, static_cast<unsigned>(shape.C), in, scale, out);
}

template <typename T, unsigned width>
void launch(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale,
            const CrossEntropyOutputs<T>& out) {
  const std::size_t row = padded_row(static_cast<unsigned>(shape.C)) * sizeof(float);
  if (row + sizeof(Shared) <= gpu(label).shared_bytes) {
    start<T, width, true>(label, shape, in, scale, out, row);
  } else {
    start<T, width, false>(label, shape, in, scale, out, 2 * tile * sizeof(float));
  }
}

template <typename T>
void launch(const char* label, RowShape shape, const CrossEntropyInputs& in, float scale,
            const CrossEntropyOutputs<T>& out) {
  if (shape.rows == 0) return;
  portable::require_countable(label, shape.rows);
  constexpr unsigned width = 4;
  if (in.stride % width == 0 && aligned<width>(in.logits) && aligned<width>(out.dlogits)) {
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

SHOAL_FOR_TYPES(cross_entropy);

}  // namespace shoal::kernels
