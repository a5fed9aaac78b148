// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/checkpoint_match.hpp"

#include <cstdint>

#include "io/checkpoint/checkpoint_format.hpp"
#include "io/files/agreement.hpp"
#include "shoal/base/error.hpp"

namespace shoal::io {

namespace fs = std::filesystem;
namespace format = checkpoint_format;

std::vector<std::size_t> Described::places(const std::string& dataset) const {
  if (const auto found = index_.find(dataset); found != index_.end()) return {found->second};
  std::vector<std::size_t> of_nodes;
  for (auto found = of_node(0, dataset); found != index_.end(); found = of_node(of_nodes.size(), dataset)) {
    of_nodes.push_back(found->second);
  }
  if (of_nodes.size() == static_cast<std::size_t>(view_.nodes)) return {of_nodes[static_cast<std::size_t>(view_.node)]};
  return of_nodes;
}

Described::Index::const_iterator Described::of_node(std::size_t node, const std::string& dataset) const {
  return index_.find(node_dataset(static_cast<int>(node), dataset));
}

namespace {

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

}  // namespace

void match_together(comm::Communicator& group, const fs::path& file, const Described& described,
                    const std::vector<TensorSlice>& slices) {
  std::vector<std::uint64_t> listed(described.contents.datasets.size());
  together(group, [&] { match(file, described, slices, listed); });
  group.all_reduce(Span<std::uint64_t>(listed), comm::Reduce::max).wait();
  require_all_listed(file, described.contents, listed);
}

}  // namespace shoal::io
