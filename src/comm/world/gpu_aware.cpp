// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/gpu_aware.hpp"

#include <mpi.h>

#include <cstdlib>
#include <string_view>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "comm/nccl/nccl.hpp"
#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"

namespace shoal::comm {

using device::Reach;

namespace {

/// As the library was built, and as its variables for this process are set.
Reach says_the_library() {
#if (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000) || defined(MPIX_CUDA_AWARE_SUPPORT)
#if defined(OPEN_MPI)
  constexpr Reach if_any = Reach::messages;
#else
  constexpr Reach if_any = Reach::collectives;
#endif
  return MPIX_Query_cuda_support() == 1 ? if_any : Reach::nothing;
#else
  return Reach::nothing;
#endif
}

}  // namespace

Reach gpu_aware() {
  const char* const given = std::getenv("SHOAL_GPU_AWARE_MPI");
  if (given == nullptr) return device::kind() == device::DeviceKind::simulated ? Reach::collectives : says_the_library();
  const std::string_view asked = given;
  if (asked == "0") return Reach::nothing;
  if (asked == "messages") return Reach::messages;
  require_input(asked == "1", "SHOAL_GPU_AWARE_MPI=", asked, ": allowed: 0, 1, messages");
  return Reach::collectives;
}

bool sends_by_nccl(const CommOptions& options) {
  const bool on_gpu = device::kind() == device::DeviceKind::cuda;
  return options.backend == Backend::nccl || (options.backend == Backend::automatic && on_gpu && has_nccl());
}

Reach reach_of(const CommOptions& options) {
  if (device::kind() == device::DeviceKind::host || sends_by_nccl(options)) return Reach::collectives;
  return gpu_aware();
}

}  // namespace shoal::comm
