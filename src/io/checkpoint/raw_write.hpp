// SPDX-License-Identifier: Apache-2.0
// All ranks write their parts of one file, directly from their own memory; from a device in pieces that the host can read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "io/checkpoint/raw_part.hpp"
#include "io/files/files.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

/// Not collective. Writes the parts, and starts their write-back to disk. Returns false if *stop was set before all were
/// written.
bool write_parts(File& file, const std::vector<RawPart>& parts, const std::atomic<bool>* stop = nullptr);

/// Collective. Replaces IoMode::automatic by the mode for this file and these ranks; the same on all ranks.
IoMode resolve(comm::World& world, const std::filesystem::path& file, IoMode mode);

/// Collective. The file must exist and have its full size: if an NFS client believes that a page lies behind the end of
/// the file, it writes the whole page, not only the part that it was given. If when_written() writes, rank 0 passes the
/// file that it writes to, which is closed on return. The parts of different ranks must not overlap. When all parts are
/// written but not yet synced, all ranks call when_written(), which is collective, too. Everything is on disk when
/// write_raw() returns: one rank of each node syncs what all ranks of the node wrote.
void write_raw(comm::World& world, const std::filesystem::path& path, File* also, std::vector<RawPart> parts, IoMode mode,
               const std::function<void()>& when_written);

}  // namespace shoal::io
