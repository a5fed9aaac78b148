// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter and all-gather of messages that take the same sub-range of every rank's shard, by the reproducible tree
// (comm/tree_reduce.hpp) or by the MPI library's own collectives: for comparing their speed. The library chooses its
// algorithm by message size and number of ranks, so its sums differ in rounding from one setting to another.
#pragma once

#include "shoal/comm/tree_reduce.hpp"

namespace shoal::comm {

enum class Collectives : std::uint8_t { reproducible, native };

/// As tree_reduce_scatter(); native: of float only.
Request reduce_scatter(Collectives how, Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch);
/// As tree_all_gather().
Request all_gather(Collectives how, Communicator& group, Blocks blocks, Span<std::byte> scratch);
/// For blocks of so many bytes together.
std::size_t scratch_bytes(Collectives how, int group_size, std::size_t bytes);

/// Native: the sums of all blocks, of floats, on all ranks, where they lie.
Request native_all_reduce(Communicator& group, const Blocks& blocks);

}  // namespace shoal::comm
