// SPDX-License-Identifier: Apache-2.0
// A checkpoint is one HDF5 file, written by all ranks, of logical tensors by name and shape. It does not depend on the ZeRO
// stage, the number of ranks, the division of layers among ranks and the precision of the run that wrote it. It gets its
// final name only when it is complete and synced to disk.
//
//   /            attributes: format_version (1), program ("shoal VERSION"), step, run, started
//   /lineage     attributes, strings: the runs before this one, oldest first, each as "RUN STEP" (io/lineage.hpp). Files of
//                older programs have no lineage, run and started
//   /deck        string: the resolved deck
//   /scalars     attributes, strings: further state
//   /numbers     attributes, float64: further state that is a number (absent from files of older programs)
//   /parameters/NAME, /moments/first/NAME, ...   float32, contiguous; attribute checksum (hexadecimal string)
//   /residuals/RANK                              likewise: error-feedback residuals of a rank's gradients
//   /outer/parameters/NAME, /outer/momentum/NAME likewise: state of the outer update
//   /common/NAME                                 likewise: parameters that nodes had in common at the last synchronization
//   /average/sent/NAME, /average/mean/NAME       likewise: a mean over nodes that is in flight (delayed averaging)
//   /average/lost/NAME                           likewise: error-feedback residuals of quantized means
//   /push/sent/NAME, /push/received/NAME         likewise: an exchange between two nodes that is in flight (SGP)
//   /nodes/K/...                                 instead of any of these if nodes differ: as node K has it, K = 0, 1, ...
//
// Rank 0 lays the file out, all ranks write their slices (io/hdf5.hpp, [Note: HDF5 by rank 0, raw data by all ranks]).
// A seal over everything but the raw data follows behind HDF5's end (src/io/hdf5/seal.hpp). A file is refused unless the
// seal and every checksum agree.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shoal/base/state.hpp"
#include "shoal/base/types.hpp"
#include "shoal/comm/world.hpp"
#include "shoal/io/hexadecimal.hpp"
#include "shoal/io/io_mode.hpp"
#include "shoal/io/lineage.hpp"

namespace shoal::io {

/// A part of a logical tensor that this rank holds. Ranges begin at multiples of 16 elements, and end at one or at the end
/// of the tensor.
using TensorSlice = NamedSlice;

/// The content of a checkpoint except for tensors.
struct CheckpointState {
  std::int64_t step = 0;                       ///< optimizer steps done
  std::string deck;                            ///< the resolved deck, as --print-config prints it
  std::map<std::string, std::string> scalars;  ///< further state by name (data position, random seed, ...), as exact text
  std::map<std::string, double> numbers = {};  ///< further state by name (loss scale, ...); every bit is kept
  Lineage lineage = {};                        ///< lineage of the run that wrote it
  std::string program = "shoal";               ///< name and version of the program that wrote it
};

/// Sum modulo 2^64 of XXH3_64bits(piece, seed = the piece's index in the tensor) over the pieces of a slice. A piece has 16
/// elements; the last one of a tensor may be shorter. The checksum of a tensor is the sum of the checksums of its slices,
/// however it is divided into slices.
std::uint64_t checksum(const TensorSlice& slice);
/// Combines the checksums of several tensors, by name: sum modulo 2^64 of XXH3_64bits(checksum as 8 little-endian bytes,
/// seed = XXH3_64bits(name)).
std::uint64_t combine(const std::map<std::string, std::uint64_t>& checksums);
/// Collective. The combined checksum of the tensors whose slices the ranks hold (by names without the /parameters/ prefix).
/// All ranks list the same tensors in the same order; over all ranks each element is listed exactly once.
std::uint64_t params_checksum(comm::Communicator& group, const std::vector<TensorSlice>& parameters);

/// Collective over world.all(). All ranks list the same tensors (their ranges may be empty); over all ranks every element is
/// listed exactly once. Disk space is reserved before anything is written. If there is not enough, every rank gets the same
/// Error, nothing is left behind, and earlier files are untouched. Returns the number of bytes written by all ranks.
std::uint64_t save_checkpoint(comm::World& world, const std::filesystem::path& file, const CheckpointState& state,
                              const std::vector<TensorSlice>& tensors, IoMode mode);

/// The node that reads, and the number of nodes. If the file has a tensor once per node, a node gets its own copy if the
/// same number of nodes wrote the file, and otherwise the mean over the file's nodes (summed in the order of
/// comm/tree_reduce.hpp, then divided by their number).
struct NodeView {
  int node = 0, nodes = 1;
};

/// Collective. Reads the slices (any ranges) and verifies the seal and all checksums of the file. Data that the ranks read
/// anyway are verified while they are read. Needs a few megabytes in addition to the slices' own memory. Errors are the same
/// on all ranks and name the file, the dataset, and the found and expected values; the content of the slices is then
/// undefined. It is also an error if a listed tensor is not in the file or has another shape there, or if the file has a
/// tensor that is not listed although another one of the same group (/parameters, /moments/first, ...) is.
CheckpointState load_checkpoint(comm::World& world, const std::filesystem::path& file,
                                const std::vector<TensorSlice>& tensors, const NodeView& view = {});

struct LoadedCheckpoint {
  std::filesystem::path file;
  CheckpointState state;
};
/// Returns the slices to be read, given the state in the checkpoint. The same tensors on all ranks.
using Wanted = std::function<std::vector<TensorSlice>(const CheckpointState&)>;
LoadedCheckpoint load_checkpoint(comm::World& world, const std::filesystem::path& file, const Wanted& wanted,
                                 const NodeView& view = {});
/// Collective. Loads the first of several files that is whole (resume = latest). candidates: called on rank 0, lists the
/// files, newest first; if it throws an Error, all ranks do. Returns nothing if there are no candidates; throws an error if
/// none of them is whole. warn: called on rank 0 with the reason for each file that is passed over; by default the reason is
/// printed to stderr. A checkpoint of another model is an error, not passed over.
std::optional<LoadedCheckpoint> load_newest_checkpoint(comm::World& world,
                                                       const std::function<std::vector<std::filesystem::path>()>& candidates,
                                                       const Wanted& wanted, const NodeView& view = {},
                                                       const std::function<void(const std::string&)>& warn = {});

/// Name of node `node`'s own copy of a tensor: "/nodes/3/parameters/wte.weight".
std::string node_dataset(int node, const std::string& dataset);

/// The content of a checkpoint as its sealed metadata describe it. Read by one rank, without the raw data.
struct CheckpointDataset {
  std::string name;
  std::vector<std::size_t> shape;
  std::uint64_t checksum = 0;
  std::uint64_t offset = 0;  ///< where the raw data begin, in bytes from the start of the file
  std::size_t elements() const;
  std::size_t pieces() const;  ///< number of pieces that its checksum is a sum over
};
struct CheckpointContents {
  std::int64_t format_version = 0;
  CheckpointState state;
  std::vector<CheckpointDataset> datasets;  ///< by name
  std::uint64_t file_bytes = 0;
};
CheckpointContents describe_checkpoint(const std::filesystem::path& file);
CheckpointState read_checkpoint_state(const std::filesystem::path& file);
/// Reads the whole file on one rank, and compares all checksums. bad_input() at the first one that differs.
CheckpointContents verify_checkpoint(const std::filesystem::path& file);

/// "step_00000020.h5" for step 20, and the step of such a file name; nothing for other names.
std::string checkpoint_name(std::int64_t step);
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& file);
/// The complete checkpoints of a directory, oldest first, and the temporary files that killed runs left. None if the
/// directory does not exist; an Error if it exists and cannot be listed.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory);
std::vector<std::filesystem::path> list_unfinished_checkpoints(const std::filesystem::path& directory);
/// Directories that have the name of a checkpoint, which no checkpoint can replace. Errors as above.
std::vector<std::filesystem::path> list_obstacles(const std::filesystem::path& directory);

}  // namespace shoal::io
