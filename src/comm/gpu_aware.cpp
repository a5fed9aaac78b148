// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/gpu_aware.hpp"

#include <mpi.h>

#include <cstdlib>
#include <string_view>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "shoal/base/error.hpp"
#include "shoal/device/kind.hpp"

namespace shoal::comm {

namespace {

/// As the library was built, and as its variables for this process are set.
bool says_the_library() {
#if (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000) || defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace

bool gpu_aware() {
  const char* const given = std::getenv("SHOAL_GPU_AWARE_MPI");
  if (given == nullptr) return device::kind() == device::DeviceKind::simulated || says_the_library();
  const std::string_view asked = given;
  require_input(asked == "0" || asked == "1", "SHOAL_GPU_AWARE_MPI=", asked, ": allowed: 0, 1");
  return asked == "1";
}

}  // namespace shoal::comm
