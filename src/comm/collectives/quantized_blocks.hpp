// SPDX-License-Identifier: Apache-2.0
// Blocks in the form in which they are sent: the spans one after another, each quantized by itself.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/operations/messages.hpp"
#include "shoal/comm/tree_reduce.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::comm {

/// fail() unless there is one block for each rank, whose spans consist of whole elements of the type.
void check_blocks(const Blocks& blocks, std::size_t ranks, DType type);

/// Number of elements of a block, and of the bytes that are sent for it.
std::size_t elements_of(const Block& block, DType type);
std::size_t wire_bytes(const Block& block, DType type, const kernels::QuantFormat& format);
/// Upper bound of the bytes that are sent for `elements` elements in `spans` spans.
std::size_t most_wire_bytes(std::size_t elements, std::size_t spans, const kernels::QuantFormat& format);

/// A term of a sum over blocks: the values of a block, its codes, or floats.
struct BlockTerm {
  const Block* values = nullptr;
  const std::byte* codes = nullptr;
  int bits = 8;
  const float* floats = nullptr;

  static BlockTerm of(const Block& block) { return {&block}; }
  static BlockTerm of_codes(int bits, const std::byte* codes) { return {nullptr, codes, bits}; }
  static BlockTerm of_floats(const float* floats) { return {nullptr, nullptr, 8, floats}; }
};

/// Compute the sum of the terms, in their order, span by span. The terms are blocks with the spans of `block`. The result is
/// quantized into `wire`, or stored in `floats` or in `block`. residual: one element for each element of the block, as in
/// kernels::quantize().
void quantize_sum(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format,
                  float* residual, std::byte* wire);
void sum_to_floats(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format,
                   float* floats);
void sum_to_block(const Block& block, DType type, const std::vector<BlockTerm>& terms, const kernels::QuantFormat& format);

/// Adds the quantization error of a block to kernels::quant_error_parts parts; does nothing if `parts` is null.
void add_error(const Block& block, DType type, const std::byte* wire, const kernels::QuantFormat& format,
               kernels::QuantError* parts);

}  // namespace shoal::comm
