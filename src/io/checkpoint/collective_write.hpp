// SPDX-License-Identifier: Apache-2.0
// Writing by MPI-IO, which may exchange data between ranks so that few of them write large blocks.
#pragma once

#include <filesystem>
#include <vector>

#include "io/checkpoint/raw_part.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::io {

/// Collective. The file must exist. Writes the parts, which must be sorted by offset, and syncs the file.
void write_collectively(comm::World& world, const std::filesystem::path& path, const std::vector<RawPart>& parts);

}  // namespace shoal::io
