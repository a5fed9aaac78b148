// SPDX-License-Identifier: Apache-2.0
// A checkpoint is one parallel HDF5 file of logical tensors by name and shape, whatever the stage, the number of ranks and
// the precision of the run that wrote it. It appears under its final name only when it is complete and synced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/state.hpp"
#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::io {

/// A part of a logical tensor that this rank holds. Ranges start on multiples of 16 elements and end on one or at the tensor's
/// end; for writing, over all ranks every element is listed exactly once.
using TensorSlice = NamedSlice;

/// What is not a tensor.
struct CheckpointState {
  std::int64_t step = 0;                       ///< optimizer steps done
  std::string deck;                            ///< the resolved deck, as --print-config prints it
  std::map<std::string, std::string> scalars;  ///< further state by name (data position, random seed, ...), exact text
};

/// Sum modulo 2^64 of XXH3_64bits(piece, seed = the piece's index in the tensor) over pieces of 16 elements (the last may be
/// short), for the pieces of one slice. Slices of one tensor add up to its checksum, however it is cut.
std::uint64_t checksum(const TensorSlice& slice);
/// One number for a set of tensors: sum modulo 2^64 of XXH3_64bits(checksum as 8 little-endian bytes, seed = XXH3_64bits(name)).
std::uint64_t combine(const std::map<std::string, std::uint64_t>& checksums);
std::string hexadecimal(std::uint64_t checksum);
/// The combined checksum of the tensors whose slices the ranks hold (names without the /parameters/ prefix). Collective.
std::uint64_t params_checksum(comm::Communicator& group, const std::vector<TensorSlice>& parameters);

enum class IoMode { automatic, independent, collective };

/// Collective over world.all(). All ranks list the same datasets in the same order (their ranges may be empty). Disk space
/// is reserved before any dataset is made; when there is not enough, every rank gets the same Error, nothing is left
/// behind and earlier files are untouched. Returns bytes written by all ranks.
std::uint64_t save_checkpoint(comm::World& world, const std::filesystem::path& file, const CheckpointState& state,
                              const std::vector<TensorSlice>& tensors, IoMode mode);

/// Reads the slices (any ranges), after every rank has verified the checksums of its share of the datasets. Errors name file,
/// dataset, found and expected. Datasets that the caller lists but the file lacks, or of another shape, are an error.
CheckpointState load_checkpoint(comm::World& world, const std::filesystem::path& file,
                                const std::vector<TensorSlice>& tensors);

/// Attributes only, for one rank.
CheckpointState read_checkpoint_state(const std::filesystem::path& file);

/// step_00000020.h5; the complete ones of a directory, oldest first; the newest one (resume = latest).
std::string checkpoint_name(std::int64_t step);
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory);
/// Deletes all but the newest `keep`, and temporary files that an earlier run left. Rank 0 only.
void prune_checkpoints(const std::filesystem::path& directory, int keep);

}  // namespace shoal::io
