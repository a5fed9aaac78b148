// SPDX-License-Identifier: Apache-2.0
// The MPI library's own reduce-scatter, all-gather and all-reduce over blocks, for comparing their speed with that of the
// reproducible tree (comm/tree_reduce.hpp). The library chooses its algorithm by message size and number of ranks, so its
// sums differ in rounding from one setting to another.
#pragma once

#include "shoal/comm/options.hpp"
#include "shoal/comm/tree_reduce.hpp"

namespace shoal::comm {

/// As tree_reduce_scatter(), but only for fp32. scratch: native_scratch_bytes().
Request native_reduce_scatter(Communicator& group, Blocks blocks, DType type, Span<std::byte> scratch);
/// As tree_all_gather(). scratch: native_scratch_bytes().
Request native_all_gather(Communicator& group, Blocks blocks, Span<std::byte> scratch);
/// Bytes of scratch memory. bytes: size of all blocks together.
std::size_t native_scratch_bytes(std::size_t bytes);
/// On completion all blocks hold their sums over ranks, on all ranks. Only for fp32.
Request native_all_reduce(Communicator& group, const Blocks& blocks, DType type);

}  // namespace shoal::comm
