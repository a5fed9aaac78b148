// SPDX-License-Identifier: Apache-2.0
// Describes a checkpoint, and verifies its checksums, on one rank.
#include <algorithm>

#include "io/checkpoint/checkpoint_format.hpp"
#include "io/checkpoint/checkpoint_verify.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/named_errors.hpp"
#include "io/hdf5/seal.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/hdf5.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

namespace {

/// Data are read in parts of this many elements, a multiple of checksum_piece.
constexpr std::size_t read_elements = std::size_t{1} << 20U;

/// raw: in ascending order, as check_seal() has seen.
bool is_listed(const Extent& extent, const std::vector<Extent>& raw) {
  const auto found = std::lower_bound(raw.begin(), raw.end(), extent.offset,
                                      [](const Extent& listed, std::uint64_t offset) { return listed.offset < offset; });
  return found != raw.end() && *found == extent;
}

CheckpointDataset read_dataset(const hdf5::Handle& h5, const std::string& name, const std::vector<Extent>& raw) {
  const hdf5::Handle dataset = hdf5::open_dataset(h5, name);
  require_input(hdf5::holds_floats(dataset), name, ": not a contiguous dataset of float32");
  CheckpointDataset result{name, hdf5::shape_of(dataset, name),
                           parse_hexadecimal(hdf5::text_attribute(dataset, "checksum"), name),
                           hdf5::raw_offset(dataset, name)};
  const Extent extent{result.offset, result.elements() * sizeof(float)};
  require_input(extent.bytes == 0 || is_listed(extent, raw), name, ": its raw data are not where the seal lists them");
  return result;
}

/// Older programs wrote no lineage: their checkpoints belong to the run "".
Lineage read_lineage(const hdf5::Handle& h5) {
  Lineage lineage;
  if (hdf5::has_attribute(h5, "run")) lineage.run = hdf5::text_attribute(h5, "run");
  if (hdf5::has_attribute(h5, "started")) lineage.started = hdf5::text_attribute(h5, "started");
  if (hdf5::has_link(h5, "lineage"))
    lineage.ancestors = ancestors_of(hdf5::text_attributes(hdf5::open_group(h5, "lineage")));
  return lineage;
}

}  // namespace

std::size_t CheckpointDataset::elements() const { return format::elements(shape, name); }
std::size_t CheckpointDataset::pieces() const { return (elements() + checksum_piece - 1) / checksum_piece; }

CheckpointContents describe_checkpoint(const fs::path& file) {
  const std::vector<Extent> raw = check_seal(file);
  return with_file_name(file, [&] {
    const hdf5::Handle h5 = hdf5::open_file(file);
    require_input(hdf5::has_link(h5, "deck"), "not a checkpoint: /deck is missing; `shoal info` shows what it is");
    CheckpointContents contents;
    contents.file_bytes = fs::file_size(file);
    contents.format_version = hdf5::number_attribute(h5, "format_version");
    require_input(contents.format_version <= format::version, "format_version ", contents.format_version, " is newer than ",
                  format::version, ", the newest that this program reads; written by ",
                  hdf5::has_attribute(h5, "program") ? hdf5::text_attribute(h5, "program") : "an unnamed program");
    contents.state.program = hdf5::text_attribute(h5, "program");
    contents.state.step = hdf5::number_attribute(h5, "step");
    contents.state.deck = hdf5::read_text(h5, "deck");
    contents.state.scalars = hdf5::text_attributes(hdf5::open_group(h5, "scalars"));
    if (hdf5::has_link(h5, "numbers")) contents.state.numbers = hdf5::real_attributes(hdf5::open_group(h5, "numbers"));
    contents.state.lineage = read_lineage(h5);
    for (const std::string& name : hdf5::dataset_names(h5)) {
      if (name != "/deck") contents.datasets.push_back(read_dataset(h5, name, raw));
    }
    return contents;
  });
}

CheckpointState read_checkpoint_state(const fs::path& file) { return describe_checkpoint(file).state; }

std::vector<std::uint64_t> checksums_of_part(const fs::path& path, const std::vector<CheckpointDataset>& datasets,
                                             std::uint64_t part, std::uint64_t parts) {
  std::uint64_t pieces = 0, before = 0;
  for (const CheckpointDataset& dataset : datasets) pieces += dataset.pieces();
  const std::uint64_t per_part = (pieces + parts - 1) / parts;
  const Range mine{per_part * part, per_part * (part + 1)};  // of all pieces, counted over all datasets

  const File file(path, File::Mode::read);
  std::vector<float> buffer(std::min<std::uint64_t>(read_elements, per_part * checksum_piece));
  std::vector<std::uint64_t> sums;
  for (const CheckpointDataset& dataset : datasets) {
    const Range own = intersection(mine, {before, before + dataset.pieces()});
    std::uint64_t sum = 0;
    std::size_t at = (own.begin - before) * checksum_piece;
    const std::size_t end = own.empty() ? at : std::min((own.end - before) * checksum_piece, dataset.elements());
    while (at < end) {
      const auto values = Span<float>(buffer).first(std::min(buffer.size(), end - at));
      file.read(dataset.offset + at * sizeof(float), std::as_writable_bytes(values));
      sum += sum_of_pieces(values, at / checksum_piece);
      at += values.size();
    }
    sums.push_back(sum);
    before += dataset.pieces();
  }
  return sums;
}

void compare_checksums(const fs::path& path, const std::vector<CheckpointDataset>& datasets,
                       const std::vector<std::uint64_t>& found) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    require_input(found[i] == datasets[i].checksum, path.string(), ": ", datasets[i].name, ": checksum ",
                  hexadecimal(found[i]), ", expected ", hexadecimal(datasets[i].checksum), "; the file is damaged");
  }
}

CheckpointContents verify_checkpoint(const fs::path& file) {
  CheckpointContents contents = describe_checkpoint(file);
  compare_checksums(file, contents.datasets, checksums_of_part(file, contents.datasets, 0, 1));
  return contents;
}

}  // namespace shoal::io
