// SPDX-License-Identifier: Apache-2.0
// The mean of the master parameters over all nodes: a reduce-scatter by the fixed tree over the nodes' numbers, a division
// by their number, an all-gather. Every node ends with the same bits.
//
// In 16 bits what is sent, and summed, are differences from what the nodes had in common when they met last: half of the
// bytes, and an error of 2^-9 of how far a parameter has moved since, not of its size. What nodes have in common is the same
// on all of them bit by bit, and so is what they add to it. It takes the memory of another copy of this rank's shards.
#pragma once

#include <functional>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/sync/shares.hpp"

namespace shoal::sync {

class Average {
 public:
  /// sent: fp32 or bf16. shares must outlive this.
  Average(const Shares& shares, const Placement& placement, DType sent, Memory& memory);

  /// Collective over all nodes, before the first run(): what nodes have in common is the mean of what they have.
  void begin();

  /// What is done to the mean of each unit's share, on the one rank that has it, before the others get it.
  using Update = std::function<void(std::size_t unit, Range share, Span<float> mean)>;
  /// Collective over all nodes. Afterwards this rank's shards are the mean, updated.
  void run(const Update& update = {});
  /// The mean in fp32, however run() sends it.
  void run_exactly(const Update& update = {});

  /// Collective in the node: what every rank of it keeps whole (stage 0) is gathered from the shards.
  void gather_in_node();

  /// What nodes have in common, for checkpoints: /common/NAME, out of this rank's shards; none where run() sends fp32.
  std::vector<NamedSlice> slices(const std::vector<model::UnitLayout>& units, const std::vector<Range>& wanted) const;

 private:
  bool in_differences() const { return !common_.empty(); }
  void run_in_differences(const Update& update);
  Span<std::byte> difference(std::size_t unit, Range range) const;
  const float* common(std::size_t unit, Range range) const;

  const Shares* shares_;
  Placement placement_;
  DType sent_;
  std::vector<Span<float>> common_;           // by unit: of this rank's shard; empty: sent in fp32
  std::vector<Span<std::byte>> differences_;  // by unit
  Span<std::byte> scratch_;
};

}  // namespace shoal::sync
