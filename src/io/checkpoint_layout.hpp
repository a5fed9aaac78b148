// SPDX-License-Identifier: Apache-2.0
// Everything of a checkpoint but its raw data: which tensors the ranks list, their checksums, and the file that waits for
// the data. What saving at once and saving in the background have in common.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "raw_write.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/communicator.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

/// The tensors of all slices, in the order of their first mention, and which of them each slice belongs to.
struct Catalogue {
  std::vector<CheckpointDataset> datasets;
  std::vector<std::size_t> dataset_of_slice;
};

/// Collective. Every slice is one of whole pieces, and all ranks list the same tensors.
Catalogue catalogue(comm::Communicator& group, const std::vector<TensorSlice>& slices);

/// A file that has its datasets, and not yet their checksums: open on rank 0, empty elsewhere.
struct OpenLayout {
  hdf5::Handle file;
  std::vector<hdf5::Handle> datasets;  ///< in the catalogue's order; closed before the file
};

/// Collective. Rank 0 reserves the space and lays the file out. Sets the offsets. From then on raw data may be written.
OpenLayout lay_out(comm::Communicator& group, const std::filesystem::path& temporary, const CheckpointState& state,
                   Catalogue& content, const std::vector<TensorSlice>& slices);

/// Collective. Adds up the checksums of the ranks' slices (`sums`, by slice); rank 0 writes them into what lay_out() gave,
/// closes the file and seals it. Returns the file's final size.
std::uint64_t complete(comm::Communicator& group, const std::filesystem::path& temporary, OpenLayout layout,
                       Catalogue& content, const std::vector<std::uint64_t>& sums);

/// Where the slices of this rank belong, and where their checksums are added up while they are written.
std::vector<RawPart> raw_parts(const Catalogue& content, const std::vector<TensorSlice>& slices,
                               std::vector<std::uint64_t>& sums);

/// "step_00000020.h5.partial"
std::filesystem::path temporary_name(const std::filesystem::path& file);

/// Collective: rank 0 removes it, and whoever returns sees it gone.
void remove_unfinished(comm::Communicator& group, const std::filesystem::path& temporary);

/// Does a collective part of a save. Its error, the same on all ranks, takes the unfinished file with it.
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
