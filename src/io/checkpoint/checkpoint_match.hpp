// SPDX-License-Identifier: Apache-2.0
// Finds the tensors that a run wants in what a checkpoint holds, and refuses the checkpoint of another model.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

/// The contents of a file, with an index of its datasets by name, for one node of several.
class Described {
 public:
  Described(CheckpointContents what, const NodeView& view) : contents(std::move(what)), view_(view) {
    for (std::size_t i = 0; i < contents.datasets.size(); ++i) index_[contents.datasets[i].name] = i;
  }

  CheckpointContents contents;

  /// Indices of the datasets with this tensor: one, or several of which the mean is to be taken. Empty if it is not in the
  /// file.
  std::vector<std::size_t> places(const std::string& dataset) const;

 private:
  using Index = std::map<std::string, std::size_t>;
  Index::const_iterator of_node(std::size_t node, const std::string& dataset) const;

  NodeView view_;
  Index index_;
};

/// Collective. Checks that the file is a checkpoint of this model, which wants these slices.
void match_together(comm::Communicator& group, const std::filesystem::path& file, const Described& described,
                    const std::vector<TensorSlice>& slices);

}  // namespace shoal::io
