// SPDX-License-Identifier: Apache-2.0
// Reads slices of a checkpoint's tensors, and hashes them while they are read.
#pragma once

#include <cstdint>
#include <vector>

#include "io/checkpoint/checkpoint_match.hpp"
#include "io/files/files.hpp"
#include "shoal/io/checkpoint.hpp"

namespace shoal::io {

/// The checksum pieces of a dataset that were read completely: the sum of their checksums, and their number.
struct ReadBack {
  std::uint64_t sum = 0, pieces = 0;
};

/// Reads a slice, or the mean over nodes (NodeView). Adds to `seen`, which is by dataset of the file, what was read.
void read_slice(const File& file, const Described& described, const TensorSlice& slice, std::vector<ReadBack>& seen);

}  // namespace shoal::io
