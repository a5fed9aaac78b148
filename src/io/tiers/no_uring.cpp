// SPDX-License-Identifier: Apache-2.0
// In place of uring_queue.cpp, where liburing is not installed.
#include "io/tiers/disk_queue.hpp"

namespace shoal::io {

std::unique_ptr<DiskQueue> uring_queue(int /*file*/, std::size_t /*depth*/, Span<std::byte> /*registered*/,
                                       std::string& why) {
  why = "the program was built without liburing";
  return nullptr;
}

}  // namespace shoal::io
