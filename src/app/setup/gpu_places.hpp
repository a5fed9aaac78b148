// SPDX-License-Identifier: Apache-2.0
// GPUs of ranks compared with each other, and with the cores of their ranks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/setup/cores.hpp"
#include "shoal/device/unit.hpp"

namespace shoal::app {

/// The warning for GPUs that differ in their names or in their number of multiprocessors, by which libraries choose how they
/// compute; empty if all are equal. The warning calls the ranks by the names in `ranks`.
std::string difference_of_units(const std::vector<std::string>& ranks, const std::vector<device::Unit>& units);

/// The warning for a rank none of whose cores is in its GPU's memory domain (NUMA node); empty if some core is, or if the
/// system does not tell. `sys` is where the kernel shows devices.
std::string far_from_gpu(const device::Unit& unit, const CoreMask& cores, const std::filesystem::path& sys = "/sys");

}  // namespace shoal::app
