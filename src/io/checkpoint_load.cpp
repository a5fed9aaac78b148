// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "agreement.hpp"
#include "checkpoint_format.hpp"
#include "checkpoint_verify.hpp"
#include "files.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointState, step, deck, scalars)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointDataset, name, shape, checksum, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointContents, format_version, program, state, datasets, file_bytes)

namespace {

/// Rank 0 reads the metadata, the others hear of them: a thousand ranks do not open the file as HDF5.
CheckpointContents describe_together(comm::Communicator& group, const fs::path& file) {
  std::vector<std::uint8_t> message;
  together_by_0(group, [&] { message = nlohmann::json::to_cbor(nlohmann::json(describe_checkpoint(file))); });
  std::uint64_t bytes = message.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&bytes, 1)), 0).wait();
  message.resize(bytes);
  group.broadcast(comm::bytes_of(Span<std::uint8_t>(message)), 0).wait();
  return nlohmann::json::from_cbor(message).get<CheckpointContents>();
}

using Index = std::map<std::string, std::size_t>;  // dataset's name, its place in the contents

/// Every slice has its dataset, of the same shape. Marks what was listed.
void match(const fs::path& file, const CheckpointContents& contents, const Index& index,
           const std::vector<TensorSlice>& slices, std::vector<std::uint64_t>& listed) {
  for (const TensorSlice& slice : slices) {
    const auto found = index.find(slice.dataset);
    require_input(found != index.end(), file.string(), ": ", slice.dataset, ": expected with shape ",
                  format::print(slice.shape), ", not in the file: a checkpoint of another model or optimizer");
    const CheckpointDataset& dataset = contents.datasets[found->second];
    require_input(dataset.shape == slice.shape, file.string(), ": ", slice.dataset, ": found shape ",
                  format::print(dataset.shape), ", expected ", format::print(slice.shape),
                  ": a checkpoint of another model");
    require(slice.range.end <= dataset.elements() && slice.values.size() == slice.range.size(), slice.dataset,
            ": a slice that leaves the tensor");
    listed[found->second] = 1;
  }
}

/// Nothing of the file is passed over in a group of which some tensors are wanted.
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

}  // namespace

CheckpointState load_checkpoint(comm::World& world, const fs::path& path, const std::vector<TensorSlice>& tensors) {
  comm::Communicator& group = world.all();
  const CheckpointContents contents = describe_together(group, path);
  Index index;
  for (std::size_t i = 0; i < contents.datasets.size(); ++i) index[contents.datasets[i].name] = i;

  std::vector<std::uint64_t> listed(contents.datasets.size()), sums;
  together(group, [&] { match(path, contents, index, tensors, listed); });
  group.all_reduce(Span<std::uint64_t>(listed), comm::Reduce::max).wait();
  require_all_listed(path, contents, listed);

  together(group, [&] {
    sums = checksums_of_share(path, contents.datasets, static_cast<std::uint64_t>(group.rank()),
                              static_cast<std::uint64_t>(group.size()));
  });
  group.all_reduce(Span<std::uint64_t>(sums), comm::Reduce::sum).wait();
  compare_checksums(path, contents.datasets, sums);

  together(group, [&] {
    const File file(path, File::Mode::read);
    for (const TensorSlice& slice : tensors) {
      const std::uint64_t begin = contents.datasets[index.at(slice.dataset)].offset;
      file.read(begin + slice.range.begin * sizeof(float), std::as_writable_bytes(slice.values));
    }
  });
  return contents.state;
}

}  // namespace shoal::io
