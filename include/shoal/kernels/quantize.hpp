// SPDX-License-Identifier: Apache-2.0
// Blockwise quantization to INT8 and INT4, as gradients and parameters travel over slow links: for every block of
// consecutive elements four bytes of scale, and a code of 8 or 4 bits per element.
//
// On the wire: the scales of all blocks, then the codes; of two INT4 codes in a byte the even-numbered element's is in bits
// 4..7. Codes are two's complement.
//
// QuantRounding::deepspeed is the arithmetic of DeepSpeed's kernels (csrc/quantization, symmetric): the scale is the block's
// step, m / 2^(bits-1) with m the largest magnitude, and a code stands for code * step. +m, which has no code, loses up to a
// whole step. (The library rounds to binary16 first; here an element is taken as it is, so codes are the library's for
// elements that are binary16 numbers.)
//
// QuantRounding::accurate makes more of the same bytes:
// - The scale is of each quarter of a block: a power of two for the block (8 bits) times n/32, 1 <= n <= 32, and a sign
//   (6 bits) for the quarter.
// - The sign turns the quarter so that its largest magnitude is negative, where there is one code more (as llama.cpp's Q4_0
//   does): all 2^bits codes are in use, and the largest value is not cut off. One as large of the other sign still loses a
//   step.
// - INT4 codes are dense where values are: code k stands for k (16 + |k|) / 192 of the scale. That is close to what Lloyd
//   (1982) and Max (1960) ask for, for normal numbers as for heavy-tailed ones; and zero stays zero.
// Relative rms error of INT4, against DeepSpeed's in blocks as long (bytes as many): 0.065 : 0.094 of normal numbers in
// blocks of 32, 0.088 : 0.113 in blocks of 256; 0.067 : 0.140 and 0.126 : 0.243 of Student's t with 3 degrees of freedom.
// INT8 codes are evenly spaced: 0.0061 : 0.0071 of normal numbers in blocks of 256, 0.0112 : 0.0174 of Student's.
//
// A block that holds NaN or infinity (accurate: or a magnitude above 2^127) is marked as overflow and dequantizes to NaN,
// all of it. No result depends on the number of threads.
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

/// The longest block: its sum is made in a cache.
inline constexpr std::size_t longest_quant_block = 16384;

/// What is wrong with a format: "INT4 packs two elements in a byte: a block of 33 is odd"; empty if nothing is.
std::string problem_of(const QuantFormat& format);

/// Bytes of n quantized elements, scales included.
constexpr std::size_t quantized_bytes(std::size_t n, const QuantFormat& format) {
  const std::size_t blocks = (n + format.block - 1) / format.block;
  return blocks * sizeof(float) + (format.bits == 8 ? n : (n + 1) / 2);
}

/// One term of a sum of n elements each: numbers as they are, or quantized ones.
struct QuantTerm {
  const void* values = nullptr;
  DType type = DType::f32;               ///< of values
  const std::byte* quantized = nullptr;  ///< where values is null
  int bits = 8;                          ///< of quantized; block and rounding are those that the function is given

  static QuantTerm of(DType type, const void* values) { return {values, type}; }
  static QuantTerm codes(int bits, const std::byte* quantized) { return {nullptr, DType::f32, quantized, bits}; }
};

/// out, of quantized_bytes(n), = the sum of the terms, made in fp32 in their order. residual, of n elements, where not null,
/// is added last, and becomes what quantization took away from the sum (error feedback: Seide et al. 2014); in a block that
/// overflows it stays as it is.
void quantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, float* residual, std::byte* out);
/// y = the sum of the terms, made in fp32 in their order and rounded to the type once. y may be the values of a term.
void dequantize(const QuantFormat& format, std::size_t n, Span<const QuantTerm> terms, DType type, void* y);

/// Of one term.
inline void quantize(const QuantFormat& format, DType type, std::size_t n, const void* x, std::byte* out) {
  const QuantTerm term = QuantTerm::of(type, x);
  quantize(format, n, {&term, 1}, nullptr, out);
}
inline void dequantize(const QuantFormat& format, DType type, std::size_t n, const std::byte* in, void* y) {
  const QuantTerm term = QuantTerm::codes(format.bits, in);
  dequantize(format, n, {&term, 1}, type, y);
}
/// sums += what `in` stands for.
inline void dequantize_add(const QuantFormat& format, std::size_t n, const std::byte* in, float* sums) {
  const QuantTerm terms[] = {QuantTerm::of(DType::f32, sums), QuantTerm::codes(format.bits, in)};
  dequantize(format, n, terms, DType::f32, sums);
}

/// Sums of squares: of the elements, and of what quantization took away from them.
struct QuantError {
  double values = 0.0, errors = 0.0;
  QuantError& operator+=(const QuantError& more) {
    values += more.values;
    errors += more.errors;
    return *this;
  }
};
/// Of n elements x that became `quantized`. NaN where a block overflowed.
QuantError quantization_error(const QuantFormat& format, DType type, std::size_t n, const void* x,
                              const std::byte* quantized);

}  // namespace shoal::kernels
