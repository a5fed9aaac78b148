// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_layout.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "io/checkpoint/checkpoint_format.hpp"
#include "io/files/agreement.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/hdf5/hdf5_driver.hpp"
#include "io/hdf5/seal.hpp"
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

/// Sums over all ranks, by dataset, of one number per slice.
std::vector<std::uint64_t> sums_of_datasets(comm::Communicator& group, const Catalogue& content,
                                            const std::vector<std::uint64_t>& of_slices) {
  std::vector<std::uint64_t> sums(content.datasets.size());
  for (std::size_t i = 0; i < of_slices.size(); ++i) sums[content.dataset_of_slice[i]] += of_slices[i];
  group.all_reduce(Span<std::uint64_t>(sums), comm::Reduce::sum).wait();
  return sums;
}

void require_all_elements(comm::Communicator& group, const Catalogue& content, const std::vector<TensorSlice>& slices) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(slices.size());
  for (const TensorSlice& slice : slices) sizes.push_back(slice.range.size());
  const std::vector<std::uint64_t> listed = sums_of_datasets(group, content, sizes);
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const CheckpointDataset& dataset = content.datasets[i];
    require(listed[i] == dataset.elements(), dataset.name, ": the ranks together list ", listed[i], " of its ",
            dataset.elements(), " elements");
  }
}

/// An upper bound of the file's size: raw data rounded up to pages, object headers, names, and the rest.
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

/// The part of rank 0 before raw data are written. Creates groups, attributes, and datasets with their space, but writes no
/// raw data or checksums. Sets the datasets' offsets.
OpenLayout make_file(const fs::path& file, const CheckpointState& state, std::vector<CheckpointDataset>& datasets) {
  OpenLayout layout{hdf5::create_file(file, false), {}};
  const hdf5::Handle& h5 = layout.file;
  // Before the library writes anything: the driver bears a full disk, but the other ranks would write raw data in vain.
  layout.raw = hdf5::driver_file(h5).duplicate();
  layout.raw.reserve(0, bytes_needed(state, datasets));
  hdf5::write_attribute(h5, "format_version", format::version);
  hdf5::write_attribute(h5, "program", state.program);
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
  std::uint64_t end = 0;
  for (CheckpointDataset& dataset : datasets) {
    // Closed at once: an open dataset takes some 10 KB, and with sync.kind = localsgd each node has datasets of its own.
    const hdf5::Handle created = hdf5::create_floats(h5, dataset.name, dataset.shape);
    dataset.offset = hdf5::raw_offset(created, dataset.name);
    end = std::max(end, dataset.offset + dataset.elements() * sizeof(float));
  }
  layout.raw.truncate(std::max(end, layout.raw.size()));  // write_raw() wants the file in its full size
  return layout;
}

/// The part of rank 0 when the checksums are known. Returns the file's final size.
std::uint64_t write_checksums(const fs::path& temporary, OpenLayout& layout,
                              const std::vector<CheckpointDataset>& datasets) {
  std::vector<Extent> raw;
  for (const CheckpointDataset& dataset : datasets) {
    hdf5::write_attribute(hdf5::open_dataset(layout.file, dataset.name), "checksum", hexadecimal(dataset.checksum));
    raw.push_back({dataset.offset, dataset.elements() * sizeof(float)});
  }
  hdf5::close_file(layout.file, temporary.string() + ": cannot be written");
  const std::uint64_t size = seal(layout.raw, raw);
  layout.raw.truncate(size);  // frees the space that was reserved beyond the end
  return size;
}

}  // namespace

Catalogue catalogue(comm::Communicator& group, const std::vector<TensorSlice>& slices) {
  Catalogue content;
  together(group, [&] { content = list_tensors(slices); });
  agree_on_datasets(group, content.datasets);
  return content;
}

OpenLayout lay_out(comm::Communicator& group, const fs::path& temporary, const CheckpointState& state, Catalogue& content,
                   const std::vector<TensorSlice>& slices) {
  require_all_elements(group, content, slices);
  OpenLayout layout;
  std::vector<std::uint64_t> offsets(content.datasets.size());
  together_by_0(group, [&] {
    layout = make_file(temporary, state, content.datasets);
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = content.datasets[i].offset;
  });
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(offsets)), 0).wait();
  for (std::size_t i = 0; i < offsets.size(); ++i) content.datasets[i].offset = offsets[i];
  return layout;
}

std::uint64_t complete(comm::Communicator& group, const fs::path& temporary, OpenLayout& layout, Catalogue& content,
                       const std::vector<std::uint64_t>& sums) {
  const std::vector<std::uint64_t> checksums = sums_of_datasets(group, content, sums);
  for (std::size_t i = 0; i < checksums.size(); ++i) content.datasets[i].checksum = checksums[i];
  std::uint64_t size = 0;
  together_by_0(group, [&] { size = write_checksums(temporary, layout, content.datasets); });
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&size, 1)), 0).wait();
  return size;
}

std::vector<RawPart> raw_parts(const Catalogue& content, const std::vector<TensorSlice>& slices,
                               std::vector<std::uint64_t>& sums) {
  std::vector<RawPart> parts;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::uint64_t begin = content.datasets[content.dataset_of_slice[i]].offset;
    const std::size_t first = slices[i].range.begin;
    parts.push_back({begin + first * sizeof(float), slices[i].values, first / checksum_piece, &sums[i]});
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
