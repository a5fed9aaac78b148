// SPDX-License-Identifier: Apache-2.0
// Which samples make up micro-batch m of step t: a pure function of (seed, t, m), the same on any number of ranks. There is
// no position to lose: the step is the state.
#pragma once

#include <cstdint>
#include <vector>

#include "shoal/data/tokens.hpp"

namespace shoal::data {

/// Position i of step t (i counts samples in the global batch). shuffle = false: sample (t * global + i) mod n, no epochs;
/// with drop_last, epochs of floor(n / global) steps, each of which starts at sample 0 again. shuffle = true: epochs of
/// whole global batches as torch's DistributedSampler makes them with `global` in place of its world size: drop_last leaves
/// out the tail, otherwise the epoch's list is continued from its beginning; each epoch's order is a permutation given by
/// (seed, epoch), computed element by element (a Feistel network over the next power of four, walked until it falls below n:
/// Black and Rogaway 2002), so nothing is stored.
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

/// Reads micro-batches into buffers of its own.
class Loader {
 public:
  Loader(const Samples& samples, const SampleOrder& order, std::size_t micro, std::size_t block_size);
  /// Sequences m * micro ... of step t; valid until the next call. inputs, targets: [micro, block_size].
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
