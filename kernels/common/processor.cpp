// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/processor.hpp"

#include <sched.h>

#include <array>
#include <bit>
#include <cstdint>
#include <fstream>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

/// From the first line of /proc/cpuinfo that has it.
std::string processor_name() {
  const std::string key = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.compare(0, key.size(), key) == 0 && colon != std::string::npos && colon + 2 <= line.size()) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

std::string instructions_built_for() {
#if defined(__AVX512BF16__)
  return "AVX-512, bf16";
#elif defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#else
  return "baseline";
#endif
}

std::string compiler_name() {
#if defined(__clang__)
  return text("clang ", __clang_version__, ", ", instructions_built_for());
#else
  return text("g++ ", __VERSION__, ", ", instructions_built_for());
#endif
}

int available_cores() {
  std::array<std::uint64_t, 128> cores{};  // a bit for each; the system refuses a cpu_set_t if it has more than 1024
  require(sched_getaffinity(0, sizeof cores, reinterpret_cast<cpu_set_t*>(cores.data())) == 0,
          "sched_getaffinity: the cores of this process are not known");
  return std::accumulate(cores.begin(), cores.end(), 0,
                         [](int sum, std::uint64_t word) { return sum + std::popcount(word); });
}

}  // namespace shoal::kernels
