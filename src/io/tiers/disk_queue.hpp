// SPDX-License-Identifier: Apache-2.0
// Reads and writes of a file that go on while this thread does other work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shoal/base/types.hpp"
#include "shoal/io/nvme_options.hpp"

namespace shoal::io {

struct DiskRequest {
  bool writes = false;
  std::uint64_t offset = 0;
  Span<std::byte> memory;  ///< of the host; must not be used until the request has ended
};

class DiskQueue {
 public:
  DiskQueue() = default;
  /// Waits for all requests.
  virtual ~DiskQueue() = default;
  DiskQueue(const DiskQueue&) = delete;
  DiskQueue& operator=(const DiskQueue&) = delete;

  virtual DiskAccess access() const = 0;
  /// Starts a request, and returns its number, from 1. If as many are in flight as may be, waits for one of them first.
  virtual std::uint64_t start(const DiskRequest& request) = 0;
  /// Waits until this request and all before it have ended; messages go on meanwhile. SystemError if one of them failed: the
  /// text says which, without the file's name.
  virtual void finish(std::uint64_t number) = 0;
};

/// Null if the system refuses io_uring; why: set to its reason then. registered: memory that is registered with the system
/// if it allows that; requests may also use other memory.
std::unique_ptr<DiskQueue> uring_queue(int file, std::size_t depth, Span<std::byte> registered, std::string& why);
std::unique_ptr<DiskQueue> thread_queue(int file, std::size_t depth);

/// "a read of 1048576 bytes at byte 0".
std::string described(const DiskRequest& request);

}  // namespace shoal::io
