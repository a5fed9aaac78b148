// SPDX-License-Identifier: Apache-2.0
// A checkpoint is one parallel HDF5 file of logical tensors by name and shape, whatever the stage, the number of ranks and
// the precision of the run that wrote it. It appears under its final name only when it is complete and synced.
//
//   /            attributes: format_version (1), program ("shoal 0.1.0"), step, run, started
//   /lineage     attributes, strings: the runs before it, oldest first, "RUN STEP" (io/lineage.hpp; like run and started
//                absent from files of older programs)
//   /deck        string: the resolved deck
//   /scalars     attributes, strings: further state
//   /numbers     attributes, float64: further state that is a number (absent from files of older programs)
//   /parameters/NAME, /moments/first/NAME, ...   float32, contiguous; attribute checksum (hexadecimal string)
//   /outer/parameters/NAME, /outer/momentum/NAME the same, of an outer update
//   /common/NAME                                 the same, of what nodes had in common when they met last
//   /average/sent/NAME, /average/mean/NAME       the same, of a mean that is on its way between nodes
//   /average/lost/NAME                           the same, of what quantization took from means
//   /nodes/K/...                                 instead of any of these where nodes differ: as node K has it, K = 0, 1, ...
//
// Rank 0 lays the file out, all ranks write their slices (io/hdf5.hpp, [Note: HDF5 by rank 0, raw data by all ranks]).
// Behind HDF5's end stands a seal over all that is not raw data (src/io/seal.hpp); a file is refused unless the seal and
// every checksum agree.
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

/// A part of a logical tensor that this rank holds. Ranges start on multiples of 16 elements and end on one or at the
/// tensor's end.
using TensorSlice = NamedSlice;

/// What is not a tensor.
struct CheckpointState {
  std::int64_t step = 0;                       ///< optimizer steps done
  std::string deck;                            ///< the resolved deck, as --print-config prints it
  std::map<std::string, std::string> scalars;  ///< further state by name (data position, random seed, ...), exact text
  std::map<std::string, double> numbers = {};  ///< further state by name (of the loss scale, ...), every bit kept
  Lineage lineage = {};                        ///< of the run that wrote it
};

/// Sum modulo 2^64 of XXH3_64bits(piece, seed = the piece's index in the tensor) over pieces of 16 elements (the last may be
/// short), for the pieces of one slice. Slices of one tensor add up to its checksum, however it is cut.
std::uint64_t checksum(const TensorSlice& slice);
/// One number for a set of tensors: sum modulo 2^64 of XXH3_64bits(checksum as 8 little-endian bytes, seed =
/// XXH3_64bits(name)).
std::uint64_t combine(const std::map<std::string, std::uint64_t>& checksums);
/// The combined checksum of the tensors whose slices the ranks hold (names without the /parameters/ prefix). Collective;
/// all ranks list the same tensors in the same order, each element once over all ranks.
std::uint64_t params_checksum(comm::Communicator& group, const std::vector<TensorSlice>& parameters);

/// Collective over world.all(). All ranks list the same tensors (their ranges may be empty); over all ranks every element is
/// listed exactly once. Disk space is reserved before anything is written; when there is not enough, every rank gets the
/// same Error, nothing is left behind and earlier files are untouched. Returns bytes written by all ranks.
std::uint64_t save_checkpoint(comm::World& world, const std::filesystem::path& file, const CheckpointState& state,
                              const std::vector<TensorSlice>& tensors, IoMode mode);

/// Which node of how many reads: of tensors that the file has per node it gets its own, where it was written by as many
/// nodes, else the mean over them (in the order of comm/tree_reduce.hpp, divided by their number).
struct NodeView {
  int node = 0, nodes = 1;
};

/// Collective. Reads the slices (any ranges) and verifies the seal and all checksums of the file; what the ranks read of it
/// is verified while it is read. Besides the slices' own memory this takes a few megabytes. Errors are the same on all ranks
/// and name file, dataset, found and expected; the slices then hold anything. An error is also: a tensor that is listed but
/// not in the file, or has another shape there; a tensor of the file that is not listed though others beside it are (of the
/// same group: /parameters, /moments/first, ...).
CheckpointState load_checkpoint(comm::World& world, const std::filesystem::path& file,
                                const std::vector<TensorSlice>& tensors, const NodeView& view = {});

struct LoadedCheckpoint {
  std::filesystem::path file;
  CheckpointState state;
};
/// What is to be read, once it is known what the checkpoint holds. The same tensors on all ranks.
using Wanted = std::function<std::vector<TensorSlice>(const CheckpointState&)>;
LoadedCheckpoint load_checkpoint(comm::World& world, const std::filesystem::path& file, const Wanted& wanted,
                                 const NodeView& view = {});
/// Collective. The same from the first of several files that is whole (resume = latest): `candidates`, called on rank 0,
/// lists them, newest first; its Error is every rank's. Nothing when there are none; an error, when none of them is whole.
/// `warn` hears, on rank 0, why some were passed over; by default a line on stderr each. One of another model is an error,
/// not passed over.
std::optional<LoadedCheckpoint> load_newest_checkpoint(comm::World& world,
                                                       const std::function<std::vector<std::filesystem::path>()>& candidates,
                                                       const Wanted& wanted, const NodeView& view = {},
                                                       const std::function<void(const std::string&)>& warn = {});

/// The name under which node `node` keeps a tensor of its own: "/nodes/3/parameters/wte.weight".
std::string node_dataset(int node, const std::string& dataset);

/// What is in a checkpoint: its sealed metadata, read by one rank. Raw data are not looked at.
struct CheckpointDataset {
  std::string name;
  std::vector<std::size_t> shape;
  std::uint64_t checksum = 0;
  std::uint64_t offset = 0;  ///< of the raw data, bytes from the start of the file
  std::size_t elements() const;
  std::size_t pieces() const;  ///< that its checksum is a sum over
};
struct CheckpointContents {
  std::int64_t format_version = 0;
  std::string program;
  CheckpointState state;
  std::vector<CheckpointDataset> datasets;  ///< by name
  std::uint64_t file_bytes = 0;
};
CheckpointContents describe_checkpoint(const std::filesystem::path& file);
CheckpointState read_checkpoint_state(const std::filesystem::path& file);
/// Reads everything back, on one rank: bad_input() at the first thing that does not agree.
CheckpointContents verify_checkpoint(const std::filesystem::path& file);

/// "step_00000020.h5", and the step of such a file name; nothing for other names.
std::string checkpoint_name(std::int64_t step);
std::optional<std::int64_t> checkpoint_step(const std::filesystem::path& file);
/// The complete ones of a directory, oldest first; temporary files that a killed run left. An absent directory has none.
/// Error: it is there and cannot be listed.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& directory);
std::vector<std::filesystem::path> list_unfinished_checkpoints(const std::filesystem::path& directory);

}  // namespace shoal::io
