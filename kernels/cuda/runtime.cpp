// SPDX-License-Identifier: Apache-2.0
// Kernels that CUDA launches, without Kokkos.
#include "shoal/kernels/runtime.hpp"

#include <cuda_runtime_api.h>

#include "kernels/common/processor.hpp"
#include "kernels/cuda/attention_library.hpp"
#include "kernels/cuda/handle.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/taken.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::kernels {

namespace cuda {

void check(cublasStatus_t status, const char* label, const char* call) {
  require(status == CUBLAS_STATUS_SUCCESS, label, ": ", call, ": ", cublasLtGetStatusString(status), " (",
          cublasLtGetStatusName(status), "), on GPU ", device::unit().index, " (", device::unit().name.data(), ")");
}

cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t fresh = nullptr;
    check(cublasLtCreate(&fresh), "matrix products", "cublasLtCreate");
    return fresh;
  }();
  return made;
}

}  // namespace cuda

// What cuBLASLt and cuDNN take of the GPU's memory is taken here, before arenas are reserved.
Runtime::Runtime(int threads) {
  set_threads(threads);
  device::measure_taken("cuBLASLt", [] { cuda::handle(); });
  cuda::start_attention();
}

Runtime::~Runtime() = default;

void set_threads(int threads) { require(threads == 1, "kernels: ", threads, " threads; kernels on a GPU have 1"); }

int threads() { return 1; }
int most_threads() { return 1; }

std::string device_name() {
  const device::Unit& gpu = device::unit();
  return text(gpu.name.data(), ", sm_", gpu.capability, ", ", gpu.processors, " multiprocessors, portable kernels");
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  const auto version = [](std::size_t number, std::size_t major, std::size_t minor) {
    return text(number / major, '.', number % major / minor, '.', number % minor);
  };
  return {{"CUDA", text(CUDART_VERSION / 1000, '.', CUDART_VERSION % 1000 / 10)},
          {"cuBLASLt", version(cublasLtGetVersion(), 10000, 100)},
          {"cuDNN", cuda::attention_version()},
          {"compiler", compiler_name()}};
}

}  // namespace shoal::kernels
