// SPDX-License-Identifier: Apache-2.0
// Which GPU a rank computes on. On the host and on the simulated device there is nothing to choose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shoal::device {

/// Which calls of the library that sends messages read and write arenas. Collectives reach them only if messages of one rank
/// to another do.
enum class Reach : std::uint8_t { nothing, messages, collectives };

/// A rank's place on its machine, and what it asks of the device.
struct RankPlace {
  int local = 0;  ///< index among the ranks of this machine, 0 .. ranks - 1
  int ranks = 1;  ///< of this machine
  Reach reach = Reach::collectives;
};

/// What ranks tell each other about their GPUs, as bytes. All zero if arenas are memory of the host.
struct Unit {
  std::array<char, 96> name{};              ///< "NVIDIA H100 80GB HBM3"
  std::array<char, 16> bus{};               ///< "0000:c1:00.0", as Linux names the slot
  std::array<std::uint8_t, 16> identity{};  ///< the same for two ranks if they compute on the same GPU
  std::array<char, 384> problem{};          ///< why this rank has no GPU; empty if it has one
  std::uint64_t total_bytes = 0;            ///< of the GPU's memory
  std::int32_t index = 0, visible = 0;      ///< its number among the GPUs that this process sees
  std::int32_t capability = 0;              ///< 90: sm_90
  std::int32_t processors = 0, mhz = 0;     ///< streaming multiprocessors and their highest clock
  bool given() const { return total_bytes > 0; }
};

/// Starts the device. Called once, by commands that compute, before memory is reserved and before any other function of this
/// layer but start() and kind(). The GPU is the one with the number `local` among those that this process sees
/// (CUDA_VISIBLE_DEVICES and the launcher's binding decide which); if it sees fewer, the numbers begin again. Does not throw
/// if there is no GPU, so that ranks can agree on an error: then `problem` says why.
Unit open(const RankPlace& place);
/// What open() has returned.
const Unit& unit();

/// RankPlace::reach as given to open(); everything before.
Reach reach();

/// Bytes of the unit's memory that arenas may still take; the largest number if arenas are memory of the host. 256 MiB are
/// left out, for the kernels' code, which CUDA loads when a kernel is first used.
std::size_t free_bytes();

}  // namespace shoal::device
