// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "agreement.hpp"
#include "checkpoint_format.hpp"
#include "checkpoint_verify.hpp"
#include "files.hpp"
#include "hash.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ancestor, run, step)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Lineage, run, started, ancestors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointState, step, deck, scalars, numbers, lineage)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointDataset, name, shape, checksum, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointContents, format_version, program, state, datasets, file_bytes)

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

/// The contents of a file, with an index of its datasets by name, for one node of several.
class Described {
 public:
  Described(CheckpointContents what, const NodeView& view) : contents(std::move(what)), view_(view) {
    for (std::size_t i = 0; i < contents.datasets.size(); ++i) index_[contents.datasets[i].name] = i;
  }

  CheckpointContents contents;

  /// Indices of the datasets with this tensor: one, or several of which the mean is to be taken. Empty if it is not in the
  /// file.
  std::vector<std::size_t> places(const std::string& dataset) const {
    if (const auto found = index_.find(dataset); found != index_.end()) return {found->second};
    std::vector<std::size_t> of_nodes;
    for (auto found = of_node(0, dataset); found != index_.end(); found = of_node(of_nodes.size(), dataset)) {
      of_nodes.push_back(found->second);
    }
    if (of_nodes.size() == static_cast<std::size_t>(view_.nodes)) return {of_nodes[static_cast<std::size_t>(view_.node)]};
    return of_nodes;
  }

 private:
  using Index = std::map<std::string, std::size_t>;
  Index::const_iterator of_node(std::size_t node, const std::string& dataset) const {
    return index_.find(node_dataset(static_cast<int>(node), dataset));
  }

  NodeView view_;
  Index index_;
};

/// Checks that every slice has a dataset of the same shape. Sets `listed` to 1 for these datasets.
void match(const fs::path& file, const Described& described, const std::vector<TensorSlice>& slices,
           std::vector<std::uint64_t>& listed) {
  for (const TensorSlice& slice : slices) {
    const std::vector<std::size_t> places = described.places(slice.dataset);
    require_input(!places.empty(), file.string(), ": ", slice.dataset, ": expected with shape ", format::print(slice.shape),
                  ", not in the file: a checkpoint of another model or optimizer");
    for (const std::size_t place : places) {
      const CheckpointDataset& dataset = described.contents.datasets[place];
      require_input(dataset.shape == slice.shape, file.string(), ": ", dataset.name, ": found shape ",
                    format::print(dataset.shape), ", expected ", format::print(slice.shape),
                    ": a checkpoint of another model");
      require(slice.range.end <= dataset.elements() && slice.values.size() == slice.range.size(), slice.dataset,
              ": the slice goes beyond the end of the tensor");
      listed[place] = 1;
    }
  }
}

/// Checks that if some tensors of a group in the file are listed, all are.
void require_all_listed(const fs::path& file, const CheckpointContents& contents, const std::vector<std::uint64_t>& listed) {
  std::map<std::string, bool> wanted;
  for (std::size_t i = 0; i < listed.size(); ++i) wanted[format::group_of(contents.datasets[i].name)] |= listed[i] != 0;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const CheckpointDataset& dataset = contents.datasets[i];
    require_input(listed[i] != 0 || !wanted[format::group_of(dataset.name)], file.string(), ": ", dataset.name,
                  ": found with shape ", format::print(dataset.shape),
                  ", which this model does not have: a checkpoint of another model");
  }
}

/// Collective. Checks that the file is a checkpoint of this model.
void match_together(comm::Communicator& group, const fs::path& file, const Described& described,
                    const std::vector<TensorSlice>& slices) {
  std::vector<std::uint64_t> listed(described.contents.datasets.size());
  together(group, [&] { match(file, described, slices, listed); });
  group.all_reduce(Span<std::uint64_t>(listed), comm::Reduce::max).wait();
  require_all_listed(file, described.contents, listed);
}

/// The checksum pieces of a dataset that were read completely: the sum of their checksums, and their number.
struct ReadBack {
  std::uint64_t sum = 0, pieces = 0;
};

constexpr std::size_t part_elements = std::size_t{1} << 16U;

/// Reads a part of a dataset, and hashes it while it is in the core's cache.
void read_part(const File& file, const CheckpointDataset& dataset, Range part, Span<float> values, ReadBack& seen) {
  file.read(dataset.offset + part.begin * sizeof(float), std::as_writable_bytes(values));
  const std::size_t first = (part.begin + checksum_piece - 1) / checksum_piece;
  const std::size_t end = part.end == dataset.elements() ? part.end : part.end / checksum_piece * checksum_piece;
  if (first * checksum_piece >= end) return;
  seen.sum += sum_of_pieces(values.subspan(first * checksum_piece - part.begin, end - first * checksum_piece), first);
  seen.pieces += (end + checksum_piece - 1) / checksum_piece - first;
}

/// Computes the mean over several datasets: their sum by the binary tree over their indices, as comm/tree_reduce.hpp adds
/// nodes, divided by their number. read(i, values) reads the i-th one.
template <typename Read>
void read_mean(std::size_t count, Span<float> values, const Read& read) {
  std::vector<std::vector<float>> sums;  // a binary counter: after term i, merge as often as i has trailing one bits
  for (std::size_t i = 0; i < count; ++i) {
    sums.emplace_back(values.size());
    read(i, Span<float>(sums.back()));
    const bool last = i + 1 == count;
    for (std::size_t merges = last ? sums.size() - 1 : static_cast<std::size_t>(std::countr_one(i)); merges > 0; --merges) {
      const std::vector<float> top = std::move(sums.back());
      sums.pop_back();
      std::transform(top.begin(), top.end(), sums.back().begin(), sums.back().begin(), std::plus<>());
    }
  }
  const auto divisor = static_cast<float>(count);
  std::transform(sums.front().begin(), sums.front().end(), values.begin(), [=](float sum) { return sum / divisor; });
}

/// Reads a slice part by part. seen: by dataset.
void read_slice(const File& file, const Described& described, const TensorSlice& slice, std::vector<ReadBack>& seen) {
  const std::vector<std::size_t> places = described.places(slice.dataset);
  for (std::size_t at = slice.range.begin; at < slice.range.end;) {
    // Parts end at the end of a checksum piece, so that only the ends of the slice can be within a piece.
    const Range part{at, std::min(slice.range.end, (at / part_elements + 1) * part_elements)};
    const Span<float> values = slice.values.subspan(part.begin - slice.range.begin, part.size());
    const auto read = [&](std::size_t i, Span<float> into) {
      read_part(file, described.contents.datasets[places[i]], part, into, seen[places[i]]);
    };
    if (places.size() == 1) {
      read(0, values);
    } else {
      read_mean(places.size(), values, read);
    }
    at = part.end;
  }
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

void print_warning(const std::string& line) { std::fprintf(stderr, "shoal: %s\n", printable(line).c_str()); }

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
    } catch (const Error& error) {  // the same on all ranks
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
