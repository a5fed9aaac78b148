// SPDX-License-Identifier: Apache-2.0
// Everything of a checkpoint except for its raw data: the tensors that the ranks list, their checksums, and the file with
// space for the data. Used both for immediate saves and for saves in the background.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/checkpoint/raw_write.hpp"
#include "io/files/files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

/// The tensors of all slices, in the order of their first slices, and the tensor that each slice belongs to.
struct Catalogue {
  std::vector<CheckpointDataset> datasets;
  std::vector<std::size_t> dataset_of_slice;
};

/// Collective. Lists the tensors of the slices. Checks that slices consist of whole pieces (checksum_piece in hash.hpp), and
/// that all ranks list the same tensors.
Catalogue catalogue(comm::Communicator& group, const std::vector<TensorSlice>& slices);

/// A file with its datasets, but not yet with their checksums. Open on rank 0, empty on other ranks.
struct OpenLayout {
  hdf5::Handle file;
  File raw;  ///< the same open file for raw data; complete() leaves it open
};

/// Collective. Rank 0 reserves the disk space and lays the file out. Sets the datasets' offsets in `content`. Then raw data
/// may be written.
OpenLayout lay_out(comm::Communicator& group, const std::filesystem::path& temporary, const CheckpointState& state,
                   Catalogue& content, const std::vector<TensorSlice>& slices);

/// Collective. Adds the checksums of the ranks' slices (`sums`, by slice). Rank 0 writes the results to the file, closes it
/// and seals it. Returns the file's final size.
std::uint64_t complete(comm::Communicator& group, const std::filesystem::path& temporary, OpenLayout& layout,
                       Catalogue& content, const std::vector<std::uint64_t>& sums);

/// The parts of the file that this rank writes. Their checksums are added to `sums`, by slice, while they are written.
std::vector<RawPart> raw_parts(const Catalogue& content, const std::vector<TensorSlice>& slices,
                               std::vector<std::uint64_t>& sums);

/// "step_00000020.h5.partial"
std::filesystem::path temporary_name(const std::filesystem::path& file);

/// Collective. Rank 0 removes the file; when this returns, it is gone for all ranks.
void remove_unfinished(comm::Communicator& group, const std::filesystem::path& temporary);

/// Collective. Runs a part of a save. If it throws an Error, which must be the same on all ranks, the unfinished file is
/// removed.
template <typename Work>
auto or_remove(comm::Communicator& group, const std::filesystem::path& temporary, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    remove_unfinished(group, temporary);
    throw;
  }
}

}  // namespace shoal::io
