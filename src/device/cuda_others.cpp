// SPDX-License-Identifier: Apache-2.0
// What is free on a GPU before this process uses it. Only NVIDIA's management library knows: CUDA itself tells nothing
// before it has taken memory. It comes with the driver, so it is loaded, not linked, and its few types stand here.
#include <dlfcn.h>

#include <array>
#include <cstdio>

#include "cuda_state.hpp"

namespace shoal::device::cuda {

namespace {

using Device = void*;
struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};
constexpr int success = 0;

/// "GPU-01234567-89ab-cdef-0123-456789abcdef", as the library names GPUs.
std::array<char, 48> name_of(const std::array<std::uint8_t, 16>& identity) {
  std::array<char, 48> name{};
  int at = std::snprintf(name.data(), name.size(), "GPU-");
  for (std::size_t i = 0; i < identity.size(); ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += std::snprintf(name.data() + at, name.size() - static_cast<std::size_t>(at), "%s%02x", dash ? "-" : "",
                        static_cast<unsigned>(identity[i]));
  }
  return name;
}

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::optional<std::uint64_t> free_before_use(const std::array<std::uint8_t, 16>& identity) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: it may be in use by CUDA
  if (library == nullptr) return std::nullopt;
  auto* const init = function<int()>(library, "nvmlInit_v2");
  auto* const find = function<int(const char*, Device*)>(library, "nvmlDeviceGetHandleByUUID");
  auto* const memory = function<int(Device, MemoryInfo*)>(library, "nvmlDeviceGetMemoryInfo");
  if (init == nullptr || find == nullptr || memory == nullptr || init() != success) return std::nullopt;
  Device device = nullptr;
  MemoryInfo info;
  if (find(name_of(identity).data(), &device) != success || memory(device, &info) != success) return std::nullopt;
  return info.free;
}

}  // namespace shoal::device::cuda
