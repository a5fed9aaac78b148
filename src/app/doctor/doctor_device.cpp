// SPDX-License-Identifier: Apache-2.0
// shoal doctor: GPUs, and the libraries that send their memory.
#include <algorithm>
#include <array>

#include "app/doctor/doctor.hpp"
#include "app/setup/device_start.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/notation.hpp"
#include "shoal/comm/gpu_aware.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/device/unit.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app::doctor {

Finding check_device(Subject& subject) {
  Finding finding;
  const device::DeviceKind kind = device::kind();
  if (kind != device::DeviceKind::cuda) {
    finding.found = text("not used: this program computes on the ", name_of(kind), " (", kernels::device_name(), ")");
    return finding;
  }
  comm::World& world = subject.world;
  open_device(world);  // fails if a rank has no GPU, or two have the same
  const device::Unit& unit = device::unit();
  const std::vector<double> all_free = gather(world, static_cast<double>(device::free_bytes()));
  const double least = *std::min_element(all_free.begin(), all_free.end());
  const auto [nccl, version] = comm::device_library_version();
  const bool reaches = comm::gpu_aware() != device::Reach::nothing;
  finding.found = text("one for each rank: ", unit.name.data(), ", ", bytes_text(static_cast<std::size_t>(least)),
                       " free on the one with the least; ", version.empty() ? "without NCCL" : nccl + " " + version,
                       "; the MPI library ", reaches ? "reads" : "does not read", " the memory of GPUs");
  finding.values = {{"free_bytes", least}, {"gpu_aware_mpi", reaches ? 1 : 0}, {"nccl", version.empty() ? 0 : 1}};
  if (least < 0.8 * static_cast<double>(unit.total_bytes)) {
    finding.worse(Grade::warn, "other processes take memory of a GPU; look at nvidia-smi on its node");
  }
  if (version.empty() && !reaches && world.size() > 1) {
    finding.worse(Grade::warn,
                  "messages will pass through memory of the host; build with NCCL, or use a GPU-aware MPI "
                  "library (SHOAL_GPU_AWARE_MPI=1 if it does not say so)");
  }
  return finding;
}

}  // namespace shoal::app::doctor
