// SPDX-License-Identifier: Apache-2.0
#include "app/setup/gpu_places.hpp"

#include <fstream>

#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string described(const device::Unit& unit) {
  return text(unit.name.data(), " with ", unit.processors, " multiprocessors");
}

}  // namespace

std::string difference_of_units(const std::vector<std::string>& ranks, const std::vector<device::Unit>& units) {
  const device::Unit& first = units.front();
  for (std::size_t rank = 1; rank < units.size(); ++rank) {
    const device::Unit& other = units[rank];
    if (other.name == first.name && other.processors == first.processors) continue;
    return text("GPUs differ (", ranks.front(), ": ", described(first), "; ", ranks[rank], ": ", described(other),
                "): results may not have the bits that equal GPUs give");
  }
  return {};
}

std::string far_from_gpu(const device::Unit& unit, const CoreMask& cores, const std::filesystem::path& sys) {
  const std::string domain = line_of(sys / "bus/pci/devices" / unit.bus.data() / "numa_node");
  if (domain.empty() || domain.front() == '-') return {};  // -1: none
  const CoreMask near = cores_in(line_of(sys / "devices/system/node" / ("node" + domain) / "cpulist"));
  if (number_of(near) == 0 || overlap(near, cores)) return {};
  return text("GPU ", unit.index, " (", unit.bus.data(), ") is in memory domain ", domain, " with cores ", list_of(near),
              ", and the rank's cores ", list_of(cores),
              " are in others: copies and messages through memory of the host take longer; bind ranks to cores beside their "
              "GPUs, or order the GPUs by CUDA_VISIBLE_DEVICES");
}

}  // namespace shoal::app
