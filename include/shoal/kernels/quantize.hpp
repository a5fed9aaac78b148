// SPDX-License-Identifier: Apache-2.0
// Blockwise quantization to INT8 and INT4, for gradients and parameters that are sent over slow links. A block of
// consecutive elements becomes four bytes of scale and one code of 8 or 4 bits for each element.
//
// Format: the scales of all blocks, then the codes. Codes are two's complement. A byte holds two INT4 codes: the one of the
// even-numbered element is in bits 4..7.
//
// QuantRounding::deepspeed is the arithmetic of DeepSpeed's kernels (csrc/quantization, symmetric):
//   step = m / 2^(bits-1), where m is the block's largest magnitude;    value = code * step
// The element +m has no code and loses up to a whole step. (DeepSpeed first rounds elements to binary16. Here they are not
// rounded, so the codes are DeepSpeed's if the elements are binary16 numbers.)
//
// QuantRounding::accurate uses the same number of bytes better:
// - Each quarter of a block has its own scale: a power of two for the block (8 bits), times n/32 with 1 <= n <= 32 and
//   a sign for the quarter (6 bits).
// - The sign flips the quarter so that its largest-magnitude element is negative. Two's complement has one more negative
//   code, so that element is not cut off and all 2^bits codes are used (as in llama.cpp's Q4_0). An element of the same
//   magnitude and the other sign still loses a step.
// - The values of INT4 codes are closer together near zero, where most elements are: value = k (16 + |k|) / 192 * scale for
//   code k. That is close to the optimum of Lloyd (1982) and Max (1960), for normal and for heavy-tailed distributions. Zero
//   stays zero.
// Relative rms errors, accurate : deepspeed, with blocks of the same length:
//   INT4, normal numbers                              0.065 : 0.094 in blocks of 32      0.088 : 0.113 in blocks of 256
//   INT4, Student's t with 3 degrees of freedom       0.067 : 0.140 in blocks of 32      0.126 : 0.243 in blocks of 256
//   INT8 (evenly spaced codes), normal numbers                                         0.0061 : 0.0071 in blocks of 256
//   INT8, Student's t with 3 degrees of freedom                                        0.0112 : 0.0174 in blocks of 256
//
// A block that contains NaN or infinity (accurate: or a magnitude above 2^127) is marked as overflow, and all its elements
// dequantize to NaN. No result depends on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shoal/base/names.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels {

enum class QuantRounding : std::uint8_t { accurate, deepspeed };
inline constexpr std::array quant_rounding_names = {Named{QuantRounding::accurate, "accurate"},
                                                    Named{QuantRounding::deepspeed, "deepspeed"}};
constexpr const auto& table_of(QuantRounding) { return quant_rounding_names; }

struct QuantFormat {
  int bits = 8;             ///< 8 or 4
  std::size_t block = 256;  ///< elements; the last block may be shorter
  QuantRounding rounding = QuantRounding::accurate;
};

/// The longest block allowed: its sum must fit a cache.
inline constexpr std::size_t longest_quant_block = 16384;

/// Returns an error text if the format is invalid ("INT4 packs two elements in a byte: a quantization block of 33 is odd"),
/// otherwise an empty string.
std::string problem_of(const QuantFormat& format);

/// Bytes of n quantized elements, scales included.
constexpr std::size_t quantized_bytes(std::size_t n, const QuantFormat& format) {
  const std::size_t blocks = (n + format.block - 1) / format.block;
  return blocks * sizeof(float) + (format.bits == 8 ? n : (n + 1) / 2);
}

/// One term of a sum: n elements, either in a floating-point type or quantized.
struct QuantTerm {
  const void* values = nullptr;
  DType type = DType::f32;               ///< of values
  const std::byte* quantized = nullptr;  ///< used if values is null
  int bits = 8;                          ///< of quantized; its block and rounding are those of the function's format

  static QuantTerm of(DType type, const void* values) { return {values, type}; }
  static QuantTerm codes(int bits, const std::byte* quantized) { return {nullptr, DType::f32, quantized, bits}; }
};

/// out, of quantized_bytes(n) bytes, = the quantized sum of the terms, which are added in fp32 in their order.
/// residual, of n elements, is the error-feedback residual (Seide et al. 2014): it is added last, and then set to the part
/// of the sum that quantization has lost. In a block that overflows it is not changed. Null: none.
void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out);
/// y = the sum of the terms, which are added in fp32 in their order, rounded to the type once. y may be the values of a
/// term.
void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y);

/// The same for a single term.
inline void quantize(const QuantFormat& format, DType type, std::size_t n, const void* x, std::byte* out) {
  const QuantTerm term = QuantTerm::of(type, x);
  quantize(format, n, {&term, 1}, nullptr, out);
}
inline void dequantize(const QuantFormat& format, DType type, std::size_t n, const std::byte* in, void* y) {
  const QuantTerm term = QuantTerm::codes(format.bits, in);
  dequantize(format, n, {&term, 1}, type, y);
}
/// sums += the values of `in`.
inline void dequantize_add(const QuantFormat& format, std::size_t n, const std::byte* in, float* sums) {
  const QuantTerm terms[] = {QuantTerm::of(DType::f32, sums), QuantTerm::codes(format.bits, in)};
  dequantize(format, n, terms, DType::f32, sums);
}

/// Sums of squares of the elements and of their quantization errors.
struct QuantError {
  double values = 0.0, errors = 0.0;
  QuantError& operator+=(const QuantError& more) {
    values += more.values;
    errors += more.errors;
    return *this;
  }
};
/// Errors are added up in this many parts, which the host adds after it has fetched them. So many teams can work at a time,
/// and the order of each sum is fixed.
inline constexpr std::size_t quant_error_parts = 64;
/// parts, an array of quant_error_parts, += the error of `quantized`, which holds n elements x: to part k are added those of
/// the blocks k, k + 64, k + 128, ..., in this order. NaN if a block overflowed.
void add_quantization_error(const QuantFormat& format, DType type, std::size_t n, const void* x, const std::byte* quantized,
                            QuantError* parts);

}  // namespace shoal::kernels
