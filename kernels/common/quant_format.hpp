// SPDX-License-Identifier: Apache-2.0
// Common to the implementations of quantization: which code a format has, where its bytes are, and how decoded values are
// used.
#pragma once

#include <cstddef>

#include "kernels/rules/quantize.hpp"
#include "shoal/kernels/quantize.hpp"

namespace shoal::kernels {

/// fail() unless the format is valid and there is at least one term, each of which can be cut into the format's blocks.
void check_quantization(const QuantFormat& format, Span<const QuantTerm> terms);

/// Calls f with the DeepSpeedCode<8> or AccurateCode<8> of the format. Its with<4>() is for terms of four bits.
template <class F>
void with_rounding(const QuantFormat& format, const F& f) {
  format.rounding == QuantRounding::deepspeed ? f(rules::DeepSpeedCode<8>(format.block))
                                              : f(rules::AccurateCode<8>(format.block));
}

/// Calls f with the DeepSpeedCode or AccurateCode of the format.
template <class F>
void with_code(const QuantFormat& format, const F& f) {
  with_rounding(format, [&](const auto& code) { format.bits == 8 ? f(code) : f(code.template with<4>()); });
}

SHOAL_FUNCTION constexpr std::size_t blocks_in(std::size_t n, std::size_t block) { return (n + block - 1) / block; }

/// The use of decoded values: y = values, y += values or y -= values.
enum class Decode { replace, add, subtract };

/// The scales and the codes of one block.
template <class Byte>
struct QuantBlock {
  Byte *scales, *codes;
};
template <int bits, class Byte>
SHOAL_FUNCTION QuantBlock<Byte> block_of(Byte* quantized, std::size_t n, std::size_t block, std::size_t index) {
  Byte* const codes = quantized + blocks_in(n, block) * sizeof(float);
  return {quantized + index * sizeof(float), codes + index * block * bits / 8};
}

}  // namespace shoal::kernels
