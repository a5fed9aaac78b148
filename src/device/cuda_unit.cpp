// SPDX-License-Identifier: Apache-2.0
// Chooses this rank's GPU.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "cuda_state.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/queue.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::device {

namespace {

/// The oldest GPUs that kernels are compiled for (CMAKE_CUDA_ARCHITECTURES).
constexpr int oldest = 80;

Unit chosen;
bool opened = false;
Reach given = Reach::collectives;

std::string words(const char* call, cudaError_t status) {
  return text(call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

template <std::size_t size>
void store(const std::string& from, std::array<char, size>& to) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(to.data(), from.data(), length);
  to[length] = '\0';
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, index), "cudaDeviceGetAttribute");
  return value;
}

/// In Linux's form; empty if CUDA does not tell.
std::string bus_of(int index) {
  std::array<char, 32> told{};
  if (cudaDeviceGetPCIBusId(told.data(), static_cast<int>(told.size()), index) != cudaSuccess) return {};
  std::string bus = told.data();
  for (char& c : bus) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return bus;
}

/// Why there are no GPUs.
std::string none_found(cudaError_t status) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return text("no GPU was found: ", status == cudaSuccess ? "this process sees none" : words("cudaGetDeviceCount", status),
              visible == nullptr ? "" : text("; CUDA_VISIBLE_DEVICES = ", visible));
}

/// The GPU's memory that is taken now: before this process, and by CUDA's start.
void note_taken(std::uint64_t total, const std::optional<std::uint64_t>& free_before, std::uint64_t free) {
  const auto difference = [](std::uint64_t more, std::uint64_t less) { return more - std::min(more, less); };
  if (!free_before) {
    add_taken("CUDA and other processes", difference(total, free));
    return;
  }
  add_taken("other processes", difference(total, *free_before));
  add_taken("CUDA", difference(*free_before, free));
}

/// Returns why the GPU cannot be used; empty if it can, and is in use then.
std::string use(const RankPlace& place, Unit& unit) {
  const cudaError_t counted = cudaGetDeviceCount(&unit.visible);
  if (counted != cudaSuccess || unit.visible == 0) return none_found(counted);
  unit.index = place.local % unit.visible;
  cudaDeviceProp properties{};
  const cudaError_t known = cudaGetDeviceProperties(&properties, unit.index);
  if (known != cudaSuccess) return words("cudaGetDeviceProperties", known);
  store(properties.name, unit.name);
  std::memcpy(unit.identity.data(), &properties.uuid, unit.identity.size());
  store(bus_of(unit.index), unit.bus);
  unit.capability = 10 * properties.major + properties.minor;
  unit.processors = properties.multiProcessorCount;
  if (std::strstr(properties.name, " MIG ") != nullptr) {
    return text("GPU ", unit.index, " (", unit.name.data(),
                ") is a part of a GPU: MIG is not supported; ask for whole GPUs");
  }
  if (unit.capability < oldest) {
    return text("GPU ", unit.index, " (", unit.name.data(), ") is too old: it has compute capability ", properties.major,
                '.', properties.minor, "; needed: ", oldest / 10, '.', oldest % 10, " or newer");
  }
  const std::optional<std::uint64_t> free_before = cuda::free_before_use(unit.identity);
  const cudaError_t set = cudaSetDevice(unit.index);
  if (set != cudaSuccess) return text("GPU ", unit.index, " (", unit.name.data(), "): ", words("cudaSetDevice", set));
  std::size_t free = 0, total = 0;
  const cudaError_t asked = cudaMemGetInfo(&free, &total);
  if (asked != cudaSuccess) return text("GPU ", unit.index, " (", unit.name.data(), "): ", words("cudaMemGetInfo", asked));
  unit.total_bytes = total;
  note_taken(total, free_before, free);
  return {};
}

}  // namespace

namespace cuda {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  fail(words(call, status), ", on GPU ", chosen.index, chosen.given() ? text(" (", chosen.name.data(), ")") : std::string());
}

bool is_open() { return opened; }

}  // namespace cuda

DeviceKind kind() { return DeviceKind::cuda; }
bool immediate() { return false; }

void start() {
  const char* const simulated = std::getenv("SHOAL_SIMULATE");
  require_input(simulated == nullptr, "SHOAL_SIMULATE=", simulated == nullptr ? "" : simulated,
                ": this program computes on GPUs; only shoal_simulated, which the tests build, has a simulated device");
}

Unit open(const RankPlace& place) {
  require(!opened, "the GPU was chosen before");
  Unit unit;
  store(use(place, unit), unit.problem);
  if (unit.problem.front() != '\0') return unit;
  chosen = unit;
  chosen.mhz = unit.mhz = attribute(cudaDevAttrClockRate, unit.index) / 1000;
  given = place.reach;
  cuda::start_queues();
  cuda::show_regions();
  opened = true;
  return unit;
}

const Unit& unit() { return chosen; }
Reach reach() { return given; }

}  // namespace shoal::device
