// SPDX-License-Identifier: Apache-2.0
// Checksums of the raw data, divided into parts so that ranks read each byte once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

/// Divides all checksum pieces (hash.hpp) of the datasets into `parts` parts and reads those of part `part`. Returns, by
/// dataset, the sum of their checksums; summed over all parts these are the datasets' checksums.
std::vector<std::uint64_t> checksums_of_part(const std::filesystem::path& file,
                                             const std::vector<CheckpointDataset>& datasets, std::uint64_t part,
                                             std::uint64_t parts);

/// bad_input() that names the first dataset whose checksum differs from `found`.
void compare_checksums(const std::filesystem::path& file, const std::vector<CheckpointDataset>& datasets,
                       const std::vector<std::uint64_t>& found);

}  // namespace shoal::io
