// SPDX-License-Identifier: Apache-2.0
// A block as it travels: each of its spans quantized, one after another.
#pragma once

#include <cstddef>
#include <vector>

#include "messages.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::comm {

/// Fails unless there is a block for each rank, of whole numbers of the type.
void check_blocks(const Blocks& blocks, std::size_t ranks, DType type);

/// Elements and bytes on the wire of a block.
std::size_t elements_of(const Block& block, DType type);
std::size_t wire_bytes(const Block& block, DType type, const kernels::QuantFormat& format);
/// At most, for so many elements in so many spans.
std::size_t most_wire_bytes(std::size_t elements, std::size_t spans, const kernels::QuantFormat& format);

/// A term of a sum over blocks: a block as it is, codes of one, or floats.
struct BlockTerm {
  const Block* values = nullptr;
  const std::byte* codes = nullptr;
  int bits = 8;
  const float* floats = nullptr;

  static BlockTerm of(const Block& block) { return {&block}; }
  static BlockTerm of_codes(int bits, const std::byte* codes) { return {nullptr, codes, bits}; }
  static BlockTerm of_floats(const float* floats) { return {nullptr, nullptr, 8, floats}; }
};

/// The sum of the terms, in their order, span by span, of blocks like `block`: onto the wire; into floats; or into `block`.
/// residual: as kernels::quantize() has it, an element for each of the block.
void quantize_sum(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format,
                  float* residual, std::byte* wire);
void sum_to_floats(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format,
                   float* floats);
void sum_to_block(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format);

/// What quantization took from a block.
kernels::QuantError error_of(const Block& block, DType type, const std::byte* wire, const kernels::QuantFormat& format);

}  // namespace shoal::comm
