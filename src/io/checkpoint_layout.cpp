// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_layout.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "agreement.hpp"
#include "checkpoint_format.hpp"
#include "files.hpp"
#include "hash.hpp"
#include "seal.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

namespace {

Catalogue list_tensors(const std::vector<TensorSlice>& slices) {
  Catalogue result;
  std::unordered_map<std::string, std::size_t> index;
  for (const TensorSlice& slice : slices) {
    const auto [found, fresh] = index.try_emplace(slice.dataset, result.datasets.size());
    if (fresh) result.datasets.push_back({slice.dataset, slice.shape, 0, 0});
    const std::size_t elements = format::elements(slice.shape, slice.dataset);
    const Range r = slice.range;
    require(slice.shape == result.datasets[found->second].shape, slice.dataset, ": listed with two shapes");
    require(slice.dataset.starts_with('/') && slice.values.size() == r.size() && r.end <= elements &&
                (r.empty() || (r.begin % checksum_piece == 0 && (r.end % checksum_piece == 0 || r.end == elements))),
            slice.dataset, ": ", slice.values.size(), " values for elements ", r.begin, " .. ", r.end, " of ", elements,
            ": not a slice of whole pieces");
    result.dataset_of_slice.push_back(found->second);
  }
  return result;
}

void agree_on_datasets(comm::Communicator& group, const std::vector<CheckpointDataset>& datasets) {
  Hash hash;
  for (const CheckpointDataset& dataset : datasets) {
    const std::string line = dataset.name + format::print(dataset.shape) + '\n';
    hash.update(std::as_bytes(Span<const char>(line)));
  }
  std::uint64_t least_and_most[2] = {hash.value(), ~hash.value()};
  group.all_reduce(Span<std::uint64_t>(least_and_most), comm::Reduce::min).wait();
  require(least_and_most[0] == ~least_and_most[1], "checkpoint: the ranks list different tensors");
}

/// Adds the slices' checksums and sizes up, over all ranks.
void add_checksums(comm::Communicator& group, Catalogue& content, const std::vector<TensorSlice>& slices,
                   const std::vector<std::uint64_t>& of_slices) {
  const std::size_t n = content.datasets.size();
  std::vector<std::uint64_t> sums(2 * n);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    sums[content.dataset_of_slice[i]] += of_slices[i];
    sums[n + content.dataset_of_slice[i]] += slices[i].range.size();
  }
  group.all_reduce(Span<std::uint64_t>(sums), comm::Reduce::sum).wait();
  for (std::size_t i = 0; i < n; ++i) {
    CheckpointDataset& dataset = content.datasets[i];
    dataset.checksum = sums[i];
    require(sums[n + i] == dataset.elements(), dataset.name, ": the ranks together list ", sums[n + i], " of its ",
            dataset.elements(), " elements");
  }
}

/// An upper bound: raw data on pages, object headers and names, the rest.
std::uint64_t bytes_needed(const CheckpointState& state, const std::vector<CheckpointDataset>& datasets) {
  std::uint64_t bytes = (std::uint64_t{1} << 18U) + 2 * state.deck.size();
  for (const auto& [name, value] : state.scalars) bytes += 512 + 2 * (name.size() + value.size());
  for (const auto& [name, value] : state.numbers) bytes += 512 + 2 * (name.size() + sizeof(value));
  bytes += state.lineage.ancestors.size() * 1024;
  for (const CheckpointDataset& dataset : datasets) {
    bytes += round_up(dataset.elements() * sizeof(float), 4096) + 2048 + 4 * dataset.name.size();
  }
  return bytes;
}

/// Everything but raw data: groups, attributes, datasets with their space. Sets the datasets' offsets.
void make_file(const fs::path& file, const CheckpointState& state, std::vector<CheckpointDataset>& datasets) {
  hdf5::Handle h5 = hdf5::create_file(file, false);
  // HDF5 has emptied the file, and with it what was reserved.
  File(file, File::Mode::write).reserve(0, bytes_needed(state, datasets));
  hdf5::write_attribute(h5, "format_version", format::version);
  hdf5::write_attribute(h5, "program", std::string("shoal " SHOAL_VERSION));
  hdf5::write_attribute(h5, "step", state.step);
  hdf5::write_attribute(h5, "run", state.lineage.run);
  hdf5::write_attribute(h5, "started", state.lineage.started);
  hdf5::write_text(h5, "deck", state.deck);
  {
    const hdf5::Handle scalars = hdf5::create_group(h5, "scalars");
    for (const auto& [name, value] : state.scalars) hdf5::write_attribute(scalars, name, value);
    const hdf5::Handle numbers = hdf5::create_group(h5, "numbers");
    for (const auto& [name, value] : state.numbers) hdf5::write_real_attribute(numbers, name, value);
    const hdf5::Handle lineage = hdf5::create_group(h5, "lineage");
    for (const auto& [place, ancestor] : texts_of(state.lineage.ancestors)) hdf5::write_attribute(lineage, place, ancestor);
  }
  for (CheckpointDataset& dataset : datasets) {
    const hdf5::Handle made = hdf5::create_floats(h5, dataset.name, dataset.shape);
    hdf5::write_attribute(made, "checksum", hexadecimal(dataset.checksum));
    dataset.offset = hdf5::raw_offset(made, dataset.name);
  }
  hdf5::close_file(h5, file.string() + ": cannot be written");
}

/// Rank 0's part before raw data are written. Returns the file's final size.
std::uint64_t prepare(const fs::path& temporary, const CheckpointState& state, std::vector<CheckpointDataset>& datasets) {
  // HDF5 must not meet a full disk: asked before it opens the file, and again once it has.
  File(temporary, File::Mode::create).reserve(0, bytes_needed(state, datasets));
  make_file(temporary, state, datasets);
  std::vector<Extent> raw;
  for (const CheckpointDataset& dataset : datasets) raw.push_back({dataset.offset, dataset.elements() * sizeof(float)});
  const std::uint64_t size = seal(temporary, raw);
  File(temporary, File::Mode::write).truncate(size);  // what was reserved beyond
  return size;
}

}  // namespace

Catalogue catalogue(comm::Communicator& group, const std::vector<TensorSlice>& slices) {
  Catalogue content;
  together(group, [&] { content = list_tensors(slices); });
  agree_on_datasets(group, content.datasets);
  return content;
}

std::uint64_t lay_out(comm::Communicator& group, const fs::path& temporary, const CheckpointState& state, Catalogue& content,
                      const std::vector<TensorSlice>& slices, const std::vector<std::uint64_t>& sums) {
  add_checksums(group, content, slices, sums);
  std::vector<std::uint64_t> layout(content.datasets.size() + 1);  // the file's size, then the offsets
  together_by_0(group, [&] {
    layout[0] = prepare(temporary, state, content.datasets);
    for (std::size_t i = 1; i < layout.size(); ++i) layout[i] = content.datasets[i - 1].offset;
  });
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(layout)), 0).wait();
  for (std::size_t i = 1; i < layout.size(); ++i) content.datasets[i - 1].offset = layout[i];
  return layout[0];
}

std::vector<RawPart> raw_parts(const Catalogue& content, const std::vector<TensorSlice>& slices) {
  std::vector<RawPart> parts;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::uint64_t begin = content.datasets[content.dataset_of_slice[i]].offset;
    parts.push_back({begin + slices[i].range.begin * sizeof(float), std::as_bytes(slices[i].values)});
  }
  return parts;
}

fs::path temporary_name(const fs::path& file) { return file.string() + format::temporary_suffix; }

void remove_unfinished(comm::Communicator& group, const fs::path& temporary) {
  std::error_code ignored;
  if (group.rank() == 0) fs::remove(temporary, ignored);
  group.barrier().wait();
}

}  // namespace shoal::io
