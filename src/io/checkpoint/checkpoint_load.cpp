// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "io/checkpoint/checkpoint_match.hpp"
#include "io/checkpoint/checkpoint_slices.hpp"
#include "io/checkpoint/checkpoint_verify.hpp"
#include "io/files/agreement.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ancestor, run, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Lineage, run, started, ancestors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointState, step, deck, scalars, numbers, lineage, program)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointDataset, name, shape, checksum, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointContents, format_version, state, datasets, file_bytes)

namespace {

/// Collective. Rank 0 calls `find` and broadcasts the result, so that not every rank accesses the file system.
template <typename Find>
nlohmann::json from_rank_0(comm::Communicator& group, const Find& find) {
  std::vector<std::uint8_t> message;
  together_by_0(group, [&] { message = nlohmann::json::to_cbor(nlohmann::json(find())); });
  std::uint64_t bytes = message.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&bytes, 1)), 0).wait();
  message.resize(bytes);
  group.broadcast(comm::bytes_of(Span<std::uint8_t>(message)), 0).wait();
  return nlohmann::json::from_cbor(message);
}

CheckpointContents describe_together(comm::Communicator& group, const fs::path& file) {
  return from_rank_0(group, [&] { return describe_checkpoint(file); }).get<CheckpointContents>();
}

/// Collective. Reads the slices and verifies all datasets of the file. If the ranks together read every checksum piece of a
/// dataset the same number of times (once if it is sharded; once per rank if every rank needs it whole), the sum over the
/// data that they read verifies it. All other datasets, among them those that are damaged, are read again, each rank a part
/// of the pieces.
void read_and_verify(comm::Communicator& group, const fs::path& path, const Described& described,
                     const std::vector<TensorSlice>& slices) {
  const std::vector<CheckpointDataset>& datasets = described.contents.datasets;
  std::vector<std::uint64_t> seen(2 * datasets.size());  // sums, then numbers of pieces
  together(group, [&] {
    const File file(path, File::Mode::read);
    std::vector<ReadBack> now(datasets.size());
    for (const TensorSlice& slice : slices) read_slice(file, described, slice, now);
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      seen[i] = now[i].sum;
      seen[datasets.size() + i] = now[i].pieces;
    }
  });
  group.all_reduce(Span<std::uint64_t>(seen), comm::Reduce::sum).wait();

  std::vector<CheckpointDataset> unverified;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::uint64_t pieces = datasets[i].pieces(), times = pieces == 0 ? 0 : seen[datasets.size() + i] / pieces;
    const bool verified =
        times > 0 && seen[datasets.size() + i] == times * pieces && seen[i] == times * datasets[i].checksum;
    if (!verified) unverified.push_back(datasets[i]);
  }
  if (unverified.empty()) return;
  std::vector<std::uint64_t> sums;
  together(group, [&] {
    sums = checksums_of_part(path, unverified, static_cast<std::uint64_t>(group.rank()),
                             static_cast<std::uint64_t>(group.size()));
  });
  group.all_reduce(Span<std::uint64_t>(sums), comm::Reduce::sum).wait();
  compare_checksums(path, unverified, sums);
}

void print_warning(const std::string& line) { output::complain(text("shoal: ", printable(line), "\n")); }

}  // namespace

std::string node_dataset(int node, const std::string& dataset) { return text("/nodes/", node, dataset); }

CheckpointState load_checkpoint(comm::World& world, const fs::path& path, const std::vector<TensorSlice>& tensors,
                                const NodeView& view) {
  return load_checkpoint(
             world, path, [&](const CheckpointState&) { return tensors; }, view)
      .state;
}

LoadedCheckpoint load_checkpoint(comm::World& world, const fs::path& path, const Wanted& wanted, const NodeView& view) {
  comm::Communicator& group = world.all();
  const Described described(describe_together(group, path), view);
  const std::vector<TensorSlice> tensors = wanted(described.contents.state);
  match_together(group, path, described, tensors);
  read_and_verify(group, path, described, tensors);
  return {path, described.contents.state};
}

std::optional<LoadedCheckpoint> load_newest_checkpoint(comm::World& world,
                                                       const std::function<std::vector<fs::path>()>& candidates,
                                                       const Wanted& wanted, const NodeView& view,
                                                       const std::function<void(const std::string&)>& warn) {
  comm::Communicator& group = world.all();
  const auto names = [&] {
    std::vector<std::string> files;
    for (const fs::path& file : candidates()) files.push_back(file.string());
    return files;
  };
  const auto files = from_rank_0(group, names).get<std::vector<std::string>>();
  const auto whole = [&](const std::string& file, const auto& act) {
    try {
      act();
      return true;
    } catch (const Error& error) {                 // the same on all ranks
      if (error.code() != Exit::bad_input) throw;  // it could not be read, so nobody knows whether it is damaged
      const char* const then = file == files.back() ? "" : "; trying the checkpoint before it";
      const std::string line = text("warning: ", error.what(), then);
      if (group.rank() == 0) warn ? warn(line) : print_warning(line);
      return false;
    }
  };
  std::string damaged;
  for (const std::string& file : files) {
    damaged += (damaged.empty() ? "" : ", ") + file;
    std::optional<Described> described;
    if (!whole(file, [&] { described.emplace(describe_together(group, file), view); })) continue;
    const std::vector<TensorSlice> tensors = wanted(described->contents.state);
    match_together(group, file, *described, tensors);  // another model is an error; older files are not tried
    if (whole(file, [&] { read_and_verify(group, file, *described, tensors); })) {
      return LoadedCheckpoint{file, described->contents.state};
    }
  }
  require_input(files.empty(), "no checkpoint is whole: ", damaged,
                "; allowed: checkpoint.resume = the path of another one, or none");
  return std::nullopt;
}

}  // namespace shoal::io
