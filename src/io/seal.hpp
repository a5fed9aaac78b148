// SPDX-License-Identifier: Apache-2.0
// The seal of a checkpoint, a trace or a tokens file: a hash of every byte that is not raw data of a tensor, of events or of
// tokens (those bear checksums of their own), checked before HDF5 sees the file. HDF5 1.10 can crash on damaged metadata;
// with the seal it is given none.
//
//   | HDF5 file: metadata and raw data | table: (offset, bytes) of each raw extent | footer: 40 bytes |
//
// footer: "shoal seal 1\n\0\0\0", bytes of the table, hash of the metadata, hash of table and footer up to here; all numbers
// are 64 bits, little-endian; hashes are XXH3_64bits. HDF5 and h5py do not look at what follows the end of their file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace shoal::io {

struct Extent {
  std::uint64_t offset = 0, bytes = 0;
  bool operator==(const Extent&) const = default;
};

/// Appends the seal to a closed HDF5 file. Empty extents may be listed; the others must not overlap. The raw data need not
/// have been written yet. Returns the size of the file with its seal.
std::uint64_t seal(const std::filesystem::path& file, std::vector<Extent> raw);

/// What check_seal() does, for files that may be without a seal: those of other programs, of runs that were killed, and
/// those that h5py has changed, which cuts the seal off. Nothing for them.
std::optional<std::vector<Extent>> find_seal(const std::filesystem::path& file);

/// bad_input() unless the file is whole and its metadata are as they were sealed. Returns the raw extents, by offset.
std::vector<Extent> check_seal(const std::filesystem::path& file);

}  // namespace shoal::io
