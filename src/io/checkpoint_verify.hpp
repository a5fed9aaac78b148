// SPDX-License-Identifier: Apache-2.0
// Checksums of the raw data, divided into parts so that ranks read each byte once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

/// Per dataset, the sum over those pieces that belong to part `part` of `parts`; over all parts they add up to the
/// datasets' checksums.
std::vector<std::uint64_t> checksums_of_part(const std::filesystem::path& file,
                                             const std::vector<CheckpointDataset>& datasets, std::uint64_t part,
                                             std::uint64_t parts);

/// bad_input() naming the first dataset whose checksum is not what was found.
void compare_checksums(const std::filesystem::path& file, const std::vector<CheckpointDataset>& datasets,
                       const std::vector<std::uint64_t>& found);

}  // namespace shoal::io
