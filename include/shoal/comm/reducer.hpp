// SPDX-License-Identifier: Apache-2.0
// The collectives of a group of ranks, by a method that is chosen once, when the reducer is made: the reproducible tree
// (comm/tree_reduce.hpp), the MPI library's own collectives (comm/collectives.hpp), or quantized messages
// (comm/quantized.hpp). The callers are the same for all of them.
#pragma once

#include <memory>

#include "shoal/base/memory.hpp"
#include "shoal/comm/collectives.hpp"
#include "shoal/comm/quantized.hpp"

namespace shoal::comm {

/// Upper bounds for all messages that a reducer is given; its scratch memory follows from them.
struct MessageBounds {
  std::size_t elements = 0;         ///< elements of all blocks together
  std::size_t block_elements = 0;   ///< elements of one block
  std::size_t spans_per_block = 1;  ///< spans of one block that are not empty
};

/// State that quantization keeps from one use of a message to the next. Reducers that do not quantize ignore it.
struct QuantState {
  Span<float> residual = {};  ///< as in quantized_all_gather(), and Residuals::across of a reduce-scatter
  /// Null, or kernels::quant_error_parts parts in the device's memory, to which this rank's quantization errors are added.
  kernels::QuantError* errors = nullptr;
};

/// All ranks of the group make the same calls in the same order. comm::Request says how long blocks and scratch memory must
/// stay alive, and when the host may touch them.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// On completion blocks[rank] holds the sum over ranks. The other blocks hold nothing of use.
  virtual Request reduce_scatter(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState& state) = 0;
  /// On entry blocks[rank] holds this rank's values; on completion every block holds those of its rank, on all ranks.
  virtual Request all_gather(Blocks blocks, DType type, Span<std::byte> scratch, const QuantState& state) = 0;

  /// Returns true if one operation can leave the sums of all blocks on all ranks.
  virtual bool has_all_reduce() const { return false; }
  /// That operation. It fails unless has_all_reduce().
  virtual Request all_reduce(const Blocks& blocks, DType type);

  /// Bytes of scratch memory for messages within these bounds.
  virtual std::size_t reduce_scratch_bytes(const MessageBounds& bounds, DType type) const = 0;
  virtual std::size_t gather_scratch_bytes(const MessageBounds& bounds, DType type) const = 0;
};

/// The use with which the blocks and the scratch memory of a reducer of make_reducer() must be taken (Memory::take()), on so
/// many ranks. A quantized reducer sends only its scratch memory, and only from one rank to another: Use::messages.
Use use_of(Collectives how, int ranks);

/// The messages of this reducer are not quantized. group: may be null on one rank, or if only scratch memory is asked for.
std::unique_ptr<Reducer> make_reducer(Collectives how, int ranks, Communicator* group);

/// The communicators of a quantized reducer, as in Hierarchy. All may be null if only scratch memory is asked for; node and
/// across may be null if only all_gather() is called.
struct QuantizedGroups {
  int ranks = 1, ranks_per_node = 1;
  Communicator* all = nullptr;
  Communicator* node = nullptr;
  Communicator* across = nullptr;
};
/// The messages of this reducer are 8-bit or 4-bit values and their scales; all_gather() uses formats.across.
std::unique_ptr<Reducer> make_quantized_reducer(const QuantizedGroups& groups, const ReduceFormats& formats);

}  // namespace shoal::comm
