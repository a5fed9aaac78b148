// SPDX-License-Identifier: Apache-2.0
// Kernels in the trace, by the callbacks of Kokkos Tools.
#include <Kokkos_Core.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "shoal/base/trace.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

namespace {

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

}  // namespace

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
