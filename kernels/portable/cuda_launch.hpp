// SPDX-License-Identifier: Apache-2.0
// Launches by CUDA itself. See launch.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/portable/team.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/timing.hpp"

#define SHOAL_LAMBDA [=] __device__

// SHOAL_FUNCTIONs that use a Team are compiled for the host, too, which never calls them.
#if defined(__CUDA_ARCH__)
#define SHOAL_ON_DEVICE(value) value
#else
#define SHOAL_ON_DEVICE(value) 0
#endif

namespace shoal::kernels::portable {

inline constexpr bool on_host = false;

class Team : public TeamOperations<Team> {
 public:
  static constexpr std::size_t for_chains = rules::chains * sizeof(float);

  SHOAL_FUNCTION explicit Team(std::byte* memory) : memory_(memory) {}

  SHOAL_FUNCTION std::size_t thread() const { return SHOAL_ON_DEVICE(threadIdx.x); }
  SHOAL_FUNCTION std::size_t threads() const { return SHOAL_ON_DEVICE(blockDim.x); }
  SHOAL_FUNCTION void sync() const { static_cast<void>(SHOAL_ON_DEVICE(__syncthreads())); }
  SHOAL_FUNCTION float* chain_sums() const { return reinterpret_cast<float*>(memory_); }
  SHOAL_FUNCTION std::byte* scratch() const { return memory_ + for_chains; }

 private:
  std::byte* memory_;
};

namespace detail {

template <class Body>
__global__ void run_elements(std::size_t n, const Body body) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) body(i);
}

inline constexpr unsigned threads_per_block = 256, threads_per_team = 128;

template <unsigned at_a_time, class Compute, class Store>
__global__ void run_compute_and_store(std::size_t n, const Compute compute, const Store store) {
  const std::size_t begin = static_cast<std::size_t>(blockIdx.x) * (threads_per_block * at_a_time);
  const std::size_t first = begin + threadIdx.x;
  if (begin + threads_per_block * at_a_time <= n) {
    decltype(compute(first)) values[at_a_time];
#pragma unroll
    for (unsigned k = 0; k < at_a_time; ++k) values[k] = compute(first + k * threads_per_block);
#pragma unroll
    for (unsigned k = 0; k < at_a_time; ++k) store(first + k * threads_per_block, values[k]);
  } else {
    for (std::size_t i = first; i < n; i += threads_per_block) store(i, compute(i));
  }
}

template <class Body>
__global__ void run_teams(const Body body) {
  extern __shared__ __align__(64) std::byte memory[];
  body(static_cast<std::size_t>(blockIdx.x), Team(memory));
}

inline void check(const char* label, cudaError_t status) {
  require(status == cudaSuccess, label, " on the GPU: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

/// After each launch.
inline void launched(const char* label) {
  check(label, cudaGetLastError());
  pump();
}

inline cudaStream_t stream() { return static_cast<cudaStream_t>(device::stream()); }

}  // namespace detail

template <class Body>
void for_elements(const char* label, std::size_t n, const Body& body) {
  static_assert(sizeof(Body) <= most_captured);
  if (n == 0) return;
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>(parts(n, detail::threads_per_block), std::size_t{1} << 20U));
  {
    const device::Timed timed(label);
    detail::run_elements<<<blocks, detail::threads_per_block, 0, detail::stream()>>>(n, body);
  }
  detail::launched(label);
}

template <unsigned at_a_time = 4, class Compute, class Store>
void for_elements(const char* label, std::size_t n, const Compute& compute, const Store& store) {
  static_assert(sizeof(Compute) + sizeof(Store) <= most_captured);
  if (n == 0) return;
  const std::size_t blocks = parts(n, std::size_t{detail::threads_per_block} * at_a_time);
  require_countable(label, blocks);
  {
    const device::Timed timed(label);
    detail::run_compute_and_store<at_a_time>
        <<<static_cast<unsigned>(blocks), detail::threads_per_block, 0, detail::stream()>>>(n, compute, store);
  }
  detail::launched(label);
}

template <class Body>
void for_teams(const char* label, std::size_t items, std::size_t scratch_bytes, const Body& body) {
  static_assert(sizeof(Body) <= most_captured);
  if (items == 0) return;
  require_countable(label, items);
  const std::size_t bytes = Team::for_chains + scratch_bytes;
  constexpr std::size_t without_asking = 48 * 1024;
  if (bytes > without_asking) {
    require(cudaFuncSetAttribute(detail::run_teams<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(bytes)) == cudaSuccess,
            label, ": the GPU has no ", bytes, " bytes of shared memory for a block");
  }
  {
    const device::Timed timed(label);
    detail::run_teams<<<static_cast<unsigned>(items), detail::threads_per_team, bytes, detail::stream()>>>(body);
  }
  detail::launched(label);
}

/// Copies bytes within the device's memory.
inline void copy(const char* label, std::size_t bytes, const void* from, void* to) {
  if (bytes == 0) return;
  {
    const device::Timed timed(label);
    detail::check(label, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, detail::stream()));
  }
  pump();
}

}  // namespace shoal::kernels::portable
