// SPDX-License-Identifier: Apache-2.0
// Which processes are on one node: those that can share memory.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

namespace shoal::comm {

/// Names the memory that a process can share with others. Two processes are on one node if their names are equal: they run
/// under one kernel, and files that one of them makes in /dev/shm, where MPI libraries keep shared memory, can be opened by
/// the other. Host names alone would join containers and virtual nodes that have the same name, and a kernel alone would
/// join those that hide their memory from each other. The host name counts, too, because virtual machines that were started
/// from one snapshot have the same boot id.
struct SharedMemory {
  std::uint64_t kernel = 0;       ///< hash of the kernel's boot id
  std::uint64_t file_system = 0;  ///< device number of /dev/shm: one mounted file system has one. 0: there is none
  std::uint64_t host = 0;         ///< hash of the host name

  auto operator<=>(const SharedMemory&) const = default;  // NOLINT(modernize-use-nullptr): it is no pointer
};

/// The memory of this process. host: its host name.
SharedMemory shared_memory(std::string_view host);

}  // namespace shoal::comm
