// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace shoal::io {

/// nvme.*
struct NvmeOptions {
  std::string dir;              ///< a directory on a local disk
  double block_mb = 1.0;        ///< most 10^6 bytes of one read or write; rounded up to whole sectors of 4096 bytes
  std::size_t queue_depth = 8;  ///< reads and writes in flight
};

}  // namespace shoal::io
