// SPDX-License-Identifier: Apache-2.0
// The devices that there are implementations of. A program has one of them: the one that it is linked with.
#pragma once

#include <array>
#include <cstdint>

namespace shoal::device {

/// `automatic` stands for the device of the program.
enum class DeviceKind : std::uint8_t { automatic, host, simulated, cuda };
struct DeviceRow {
  DeviceKind value;
  const char* name;
  const char* program;  ///< the program that has it
};
inline constexpr std::array device_kinds = {
    DeviceRow{DeviceKind::automatic, "auto", ""}, DeviceRow{DeviceKind::host, "host", "shoal"},
    DeviceRow{DeviceKind::simulated, "simulated", "shoal_simulated, which a build with tests makes"},
    DeviceRow{DeviceKind::cuda, "cuda", "build-cuda/shoal, which `make cuda` builds"}};
constexpr const auto& table_of(DeviceKind) { return device_kinds; }

/// The device of this program; never `automatic`.
DeviceKind kind();

}  // namespace shoal::device
