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

namespace shoal::io {

/// The tensors of all slices, in the order of their first mention, and which of them each slice belongs to.
struct Catalogue {
  std::vector<CheckpointDataset> datasets;
  std::vector<std::size_t> dataset_of_slice;
};

/// Collective. Every slice is one of whole pieces, and all ranks list the same tensors.
Catalogue catalogue(comm::Communicator& group, const std::vector<TensorSlice>& slices);

/// Collective. Adds up the checksums of the ranks' slices (`sums`, by slice); then rank 0 reserves the space, lays the file
/// out and seals it. Sets checksums and offsets; returns the file's final size.
std::uint64_t lay_out(comm::Communicator& group, const std::filesystem::path& temporary, const CheckpointState& state,
                      Catalogue& content, const std::vector<TensorSlice>& slices, const std::vector<std::uint64_t>& sums);

/// Where the slices of this rank belong.
std::vector<RawPart> raw_parts(const Catalogue& content, const std::vector<TensorSlice>& slices);

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
