// SPDX-License-Identifier: Apache-2.0
// Tests on a GPU: each kernel ends before the function that launches it returns, so that tests read its results as on the
// host, and an error belongs to the test that made it.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/device/unit.hpp"
#include "support/managed_memory.hpp"
#include "support/skips.hpp"
#include "support/with_device.hpp"

namespace shoal::test {

namespace {

void wait_for_kernels() {
  const cudaError_t status = cudaDeviceSynchronize();
  require(status == cudaSuccess, "a kernel failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

}  // namespace

int with_device(int (*run)()) {
  setenv("CUDA_LAUNCH_BLOCKING", "1", 0);
  device::RankPlace place;
  place.reach = device::Reach::nothing;  // the way through memory of the host is the one that has code of its own
  const device::Unit gpu = device::open(place);
  if (!gpu.given()) {
    std::printf("SKIPPED: all: %s\n", gpu.problem.data());
    return exit_skipped;
  }
  std::fprintf(stderr, "GPU: %s\n", gpu.name.data());
  set_pump(wait_for_kernels);  // every kernel calls it after its launch
  manage_memory(true);
  const int code = run();
  manage_memory(false);
  std::fflush(nullptr);
  std::_Exit(code);  // static objects may have managed memory, which is gone when they are destroyed
}

}  // namespace shoal::test
