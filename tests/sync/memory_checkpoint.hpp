// SPDX-License-Identifier: Apache-2.0
// A checkpoint in memory: every rank keeps the whole tensors, and of those that each node has its own, its node's.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "shoal/sync/checkpoint.hpp"
#include "support/mpi_main.hpp"

namespace shoal::sync::test {

class MemoryCheckpoint {
 public:
  /// Collective.
  MemoryCheckpoint(const SyncState& state, std::size_t steps)
      : description_{.name = "a checkpoint in memory", .steps = steps, .same_kind = true, .numbers = state.numbers} {
    for (const NamedSlice& slice : state.common) keep(shoal::test::world().all(), slice);
    for (const NamedSlice& slice : state.own) keep(shoal::test::world().node(), slice);
  }

  const SyncCheckpoint& description() const { return description_; }
  void read(const std::vector<NamedSlice>& slices) const {
    for (const NamedSlice& slice : slices) {
      const std::vector<double>& values = tensors_.at(slice.dataset);
      for (std::size_t i = 0; i < slice.range.size(); ++i) {
        slice.values[i] = static_cast<float>(values[slice.range.begin + i]);
      }
    }
  }

 private:
  /// One rank of the group has each element, the others add zero.
  void keep(comm::Communicator& group, const NamedSlice& slice) {
    std::size_t elements = 1;
    for (const std::size_t length : slice.shape) elements *= length;
    std::vector<double>& values = tensors_[slice.dataset];
    values.assign(elements, 0.0);
    std::copy(slice.values.begin(), slice.values.end(), values.begin() + static_cast<std::ptrdiff_t>(slice.range.begin));
    group.all_reduce(Span<double>(values), comm::Reduce::sum).wait();
  }

  SyncCheckpoint description_;
  std::map<std::string, std::vector<double>> tensors_;
};

}  // namespace shoal::sync::test
