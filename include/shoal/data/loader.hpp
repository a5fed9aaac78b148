// SPDX-License-Identifier: Apache-2.0
// Which samples belong to micro-batch m of step t: a pure function of (seed, t, m), the same on any number of ranks. A
// checkpoint needs no position in the data, because the step defines it.
#pragma once

#include <cstdint>
#include <vector>

#include "shoal/data/tokens.hpp"

namespace shoal::data {

/// The sample at position i of step t, where i counts the samples of the global batch. n is the number of samples of the
/// data.
/// - shuffle = false: sample (t * global + i) mod n, without epochs. With drop_last: epochs of floor(n / global) steps, each
/// of which starts at sample 0.
/// - shuffle = true: epochs of whole global batches as in PyTorch's DistributedSampler, with `global` in place of its world
/// size: drop_last leaves out the rest, otherwise the list of the epoch is continued from its beginning. The order of each
/// epoch is a permutation given by (seed, epoch), computed element by element (data/permutation.hpp).
class SampleOrder {
 public:
  SampleOrder(std::size_t samples, std::size_t global, bool shuffle, bool drop_last, std::uint64_t seed);
  std::size_t sample(std::uint64_t step, std::size_t position) const;
  std::size_t steps_per_epoch() const;

 private:
  std::size_t samples_, global_;
  bool shuffle_, drop_last_;
  std::size_t steps_per_epoch_;
  std::uint64_t seed_;
};

/// Reads micro-batches into its own buffers.
class Loader {
 public:
  Loader(const Samples& samples, const SampleOrder& order, std::size_t micro, std::size_t block_size);
  /// Sequences m * micro to (m + 1) * micro - 1 of step t, valid until the next call. inputs, targets: [micro, block_size].
  struct Batch {
    Span<const std::int32_t> inputs, targets;
    std::size_t first_sample;
  };
  Batch micro_batch(std::uint64_t step, std::size_t m);

 private:
  const Samples& samples_;
  SampleOrder order_;
  std::size_t micro_, block_size_;
  std::vector<std::int32_t> row_, inputs_, targets_;
};

}  // namespace shoal::data
