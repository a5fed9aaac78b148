// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/runtime.hpp"

#include <omp.h>
#include <sched.h>
#include <dnnl.hpp>

#include <Kokkos_Core.hpp>
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>

#include "amx.hpp"
#include "instructions.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels {

namespace {

int thread_count = 1;

/// Kernels that Kokkos has begun and not ended. They are nested a few levels deep at most.
struct OpenKernels {
  static constexpr std::size_t deepest = 8;
  std::array<std::optional<trace::Region>, deepest> regions;
  std::uint64_t depth = 0;
};

OpenKernels& open_kernels() {
  static OpenKernels kernels;
  return kernels;
}

void begin_kernel(const char* name, std::uint32_t /*device*/, std::uint64_t* id) {
  OpenKernels& open = open_kernels();
  *id = open.depth++;
  if (*id < OpenKernels::deepest) open.regions[*id].emplace(trace::Level::kernels, trace::Kind::kernel, name);
}

void end_kernel(std::uint64_t id) {
  OpenKernels& open = open_kernels();
  open.depth = id;
  if (id < OpenKernels::deepest) open.regions[id].reset();
}

/// The value of the first line of /proc/cpuinfo with this key.
std::string cpu_info(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.compare(0, key.size(), key) == 0 && colon != std::string::npos && colon + 2 <= line.size()) {
      return line.substr(colon + 2);
    }
  }
  return {};
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

}  // namespace

void set_threads(int threads) {
  require(threads >= 1, "kernels: ", threads, " threads; at least 1 is needed");
  thread_count = threads;
}

// Kernels start teams of threads() threads themselves. Otherwise OpenMP has one thread, so that oneDNN prepares its products
// for one thread.
Runtime::Runtime(int threads) {
  set_threads(threads);
  omp_set_num_threads(threads);  // read by a Kokkos that has the OpenMP backend
  Kokkos::initialize();
  omp_set_num_threads(1);
}

Runtime::~Runtime() { Kokkos::finalize(); }

int threads() { return thread_count; }

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  require(sched_getaffinity(0, sizeof cores, &cores) == 0, "sched_getaffinity: the cores of this process are not known");
  return CPU_COUNT(&cores);
}

std::string device_name() {
  const std::string model = cpu_info("model name");
  return text(model.empty() ? "unknown processor" : model, ", ", instructions_built_for(), amx::available() ? ", AMX" : "");
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  const dnnl_version_t& onednn = *dnnl_version();
  return {
    {"Kokkos", text(KOKKOS_VERSION / 10000, '.', KOKKOS_VERSION / 100 % 100, '.', KOKKOS_VERSION % 100, " (",
                    Kokkos::DefaultHostExecutionSpace::name(), ")")},
        {"oneDNN", text(onednn.major, '.', onednn.minor, '.', onednn.patch, " (", instructions_used(), ")")},
#if defined(__clang__)
        {"compiler", text("clang ", __clang_version__, ", ", instructions_built_for())},
#else
        {"compiler", text("g++ ", __VERSION__, ", ", instructions_built_for())},
#endif
  };
}

void connect_trace() {
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_end_parallel_for_callback(end_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_end_parallel_reduce_callback(end_kernel);
  tools::set_begin_parallel_scan_callback(begin_kernel);
  tools::set_end_parallel_scan_callback(end_kernel);
}

}  // namespace shoal::kernels
