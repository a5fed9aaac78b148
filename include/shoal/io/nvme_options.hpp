// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shoal/base/names.hpp"

namespace shoal::io {

/// nvme.*
struct NvmeOptions {
  std::string dir;              ///< a directory on a local disk
  double block_mb = 1.0;        ///< most 10^6 bytes of one read or write; rounded up to whole sectors of 4096 bytes
  std::size_t queue_depth = 8;  ///< reads and writes in flight
};

/// How a rank reads and writes: by io_uring, with memory that is registered with the system or without, or by threads, where
/// the system does not allow io_uring.
enum class DiskAccess : std::uint8_t { uring_registered, uring, threads };
inline constexpr std::array disk_access_names = {Named{DiskAccess::uring_registered, "io_uring, registered memory"},
                                                 Named{DiskAccess::uring, "io_uring"},
                                                 Named{DiskAccess::threads, "threads"}};
constexpr const auto& table_of(DiskAccess) { return disk_access_names; }

}  // namespace shoal::io
