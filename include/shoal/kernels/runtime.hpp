// SPDX-License-Identifier: Apache-2.0
// The libraries that kernels use: Kokkos, the matrix-product library, and their threads. No other folder uses them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shoal::kernels {

/// Starts Kokkos and sets the number of threads that kernels use on this rank. A process creates one, which lives until the
/// process ends.
class Runtime {
 public:
  explicit Runtime(int threads);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

/// Number of threads that kernels use. No kernel's result depends on it, but workspaces do: set it before memory is planned.
int threads();
void set_threads(int threads);

/// The most threads that kernels can use: 1 for portable kernels on a Kokkos that has no threads.
int most_threads();

/// Number of cores that this process may run on (by its affinity mask).
int available_cores();

/// For example "AMD EPYC 9xxx, AVX-512, bf16", followed by ", AMX" if this process uses it.
std::string device_name();

/// (library, version) of Kokkos (with its backend), oneDNN, and the compiler (with its target).
std::vector<std::pair<std::string, std::string>> library_versions();

/// Records Kokkos kernels in the trace, as events of kind `kernel`, while trace::on(Level::kernels). It uses the callbacks
/// of Kokkos Tools. On devices that run kernels later than they are launched it does nothing: these time them themselves
/// (device/timing.hpp).
void connect_trace();

}  // namespace shoal::kernels
