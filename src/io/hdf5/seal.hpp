// SPDX-License-Identifier: Apache-2.0
// The seal of a checkpoint, a trace or a tokens file: a hash of every byte except for the raw data of tensors, events or
// tokens, which have checksums of their own. The seal is checked before HDF5 opens the file, since HDF5 1.10 can crash on
// damaged metadata.
//
//   | HDF5 file: metadata and raw data | table: (offset, bytes) of each raw extent | footer: 40 bytes |
//
// footer: "shoal seal 1\n\0\0\0", number of bytes of the table, hash of the metadata, hash of the table and the footer up to
// here. All numbers have 64 bits, little-endian; hashes are XXH3_64bits. HDF5 and h5py ignore what follows the end of their
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace shoal::io {

class File;

struct Extent {
  std::uint64_t offset = 0, bytes = 0;
  bool operator==(const Extent&) const = default;
};

/// Appends the seal to a closed HDF5 file. raw: where the raw data are; extents may be empty, and must not overlap. The raw
/// data need not be written yet. Returns the size of the file with its seal.
std::uint64_t seal(const std::filesystem::path& file, std::vector<Extent> raw);
std::uint64_t seal(File& file, std::vector<Extent> raw);  ///< open for writing

/// Like check_seal(), for files that may have no seal: those of other programs, of runs that were killed, and those that
/// h5py changed, which cuts the seal off. Returns nothing if there is no seal.
std::optional<std::vector<Extent>> find_seal(const std::filesystem::path& file);

/// bad_input() unless the file is complete and its metadata are as they were sealed. Returns the extents of the raw data,
/// sorted by offset.
std::vector<Extent> check_seal(const std::filesystem::path& file);

}  // namespace shoal::io
