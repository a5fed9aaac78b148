// SPDX-License-Identifier: Apache-2.0
// Tries a directory in the ways in which runs use it, for `shoal doctor`.
#pragma once

#include <cstddef>
#include <filesystem>

#include "shoal/comm/world.hpp"
#include "shoal/io/io_mode.hpp"

namespace shoal::io {

/// Collective. All ranks write `bytes` each to the new file `file`, as a checkpoint is written in this mode, and sync it.
/// Then each reads what the next rank wrote, and rank 0 removes the file. Returns the seconds of writing and syncing, the
/// same on all ranks. If anything fails, or other bytes are read, all ranks throw the same Error.
double write_probe(comm::World& world, const std::filesystem::path& file, std::size_t bytes, IoMode mode);

struct LockProbe {
  int created = 0;           ///< ranks that created the same file exclusively at the same time: must be 1
  int blind = 0;             ///< ranks that did not see it afterwards
  bool flock_works = false;  ///< rank 0 could lock it with flock()
  int double_locks = 0;      ///< other ranks that could lock it as well: must be 0
};
/// Collective. Uses and removes `file`, which must not exist.
LockProbe lock_probe(comm::World& world, const std::filesystem::path& file);

/// Bytes that are free on the directory's disk for users.
std::size_t free_disk_bytes(const std::filesystem::path& directory);

}  // namespace shoal::io
