// SPDX-License-Identifier: Apache-2.0
#include "app/setup/peak.hpp"

#include "app/setup/threads.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/kernels/peak.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

double measured_peak(comm::World& world, DType type) {
  // The rate of a GPU does not depend on how many ranks share a core.
  const double cores = device::kind() == device::DeviceKind::cuda ? 1.0 : cores_per_thread(world, kernels::threads());
  world.all().barrier().wait();
  double sum = kernels::measured_peak_gflops(type) * cores;
  world.all().all_reduce(Span<double>(&sum, 1), comm::Reduce::sum).wait();
  return sum / world.size();
}

}  // namespace shoal::app
