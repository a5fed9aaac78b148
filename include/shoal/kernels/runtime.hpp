// SPDX-License-Identifier: Apache-2.0
// The machine below the kernels: Kokkos, the matrix-product library and their threads. Neither leaves kernels/.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shoal::kernels {

/// Starts Kokkos and sets the number of threads that kernels use on this rank. One per process, for its whole life.
class Runtime {
 public:
  explicit Runtime(int threads);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

/// Threads that kernels use. No kernel's result depends on them, but the memory that is planned for does: they are set
/// before.
int threads();
void set_threads(int threads);

/// Cores this process may run on (its affinity mask).
int available_cores();

/// "AMD EPYC 9xxx, AVX-512, bf16" or the GPU's name. "AMX" follows where attention in bf16 takes its tiles.
std::string device_name();

/// (library, version) of what kernels are built on: Kokkos (with its backend), oneDNN, the compiler and its target.
std::vector<std::pair<std::string, std::string>> library_versions();

/// Forwards kernels to the trace as events of kind kernel (through the Kokkos Tools callbacks for Kokkos kernels), as long
/// as trace::on(Level::kernels).
void connect_trace();

}  // namespace shoal::kernels
