// SPDX-License-Identifier: Apache-2.0
// All ranks write their parts of one file, straight from their own memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "files.hpp"
#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

struct RawPart {
  std::uint64_t offset = 0;  ///< in the file
  Span<const float> values;
  std::uint64_t piece = 0;       ///< of the dataset, which the values begin with: pieces of checksum_piece elements
  std::uint64_t* sum = nullptr;  ///< to which the values' checksum is added while they are written; null: to none
};

/// Not collective. Writes the parts, and lets the disk begin with them. Returns false when it was told to stop before all
/// was written.
bool write_parts(File& file, const std::vector<RawPart>& parts, const std::atomic<bool>* stop = nullptr);

/// What `mode` means for this file on these ranks; the same on all of them. Collective.
IoMode resolve(comm::World& world, const std::filesystem::path& file, IoMode mode);

/// Collective; `file` exists. Parts of different ranks do not overlap. When all are written, and the disk is still busy with
/// them, all ranks call when_written(), which is collective too. Everything is on disk when it returns.
void write_raw(comm::World& world, const std::filesystem::path& file, std::vector<RawPart> parts, IoMode mode,
               const std::function<void()>& when_written);

}  // namespace shoal::io
