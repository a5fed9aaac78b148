// SPDX-License-Identifier: Apache-2.0
// The scales of a block in QuantRounding::accurate; see include/shoal/kernels/quantize.hpp.
#pragma once

#include "kernels/rules/number.hpp"

namespace shoal::kernels::rules {

/// Bits of a float.
inline constexpr std::uint32_t not_a_number = 0x7fc00000U;

/// The scales of a block's quarters in 32 bits. The upper 8 bits hold the exponent of a power of two that is at least the
/// largest magnitude, biased as in a float (127 means 1; 255 means overflow). The lower 24 bits hold n-1 (5 bits) and the
/// sign for each quarter.
class QuarterScales {
 public:
  static constexpr std::size_t quarters = 4;
  static constexpr std::uint32_t overflow = 255;
  /// The least exponent, of 2^-100. With n = 1 the least scale is 2^-105: smaller quarters have fewer codes, or are zero.
  static constexpr std::uint32_t least = 27;
  /// How a quarter's scale n/32 is rounded.
  enum class Round { up, nearest };

  /// extrema: of the quarters; `largest` is the largest of them.
  SHOAL_RULE QuarterScales(const std::uint32_t* extrema, std::uint32_t largest, Round round) {
    const std::uint32_t exponent = ((largest >> 1U) + 0x7fffffU) >> 23U;
    exponent_ = exponent < least ? least : exponent > overflow ? overflow : exponent;
    if (overflowed()) return;
    // 32 divided by the power of two: at most 2^105. The product is exact, or far below 1.
    const float per_scale = std::bit_cast<float>((254U + 5U - exponent_) << 23U);
    for (std::size_t q = 0; q < quarters; ++q) {
      const float n = std::bit_cast<float>(extrema[q] >> 1U) * per_scale;
      const float whole = round == Round::up ? ceilf(n) : (n + to_integer) - to_integer;
      bits_[q] = (static_cast<std::uint32_t>(Number<float>::max(whole, 1.0F)) - 1U) | (~extrema[q] & 1U) << 5U;
    }
  }
  SHOAL_RULE explicit QuarterScales(std::uint32_t word) : exponent_(word >> 24U) {
    for (std::size_t q = 0; q < quarters; ++q) bits_[q] = word >> 6U * q & 63U;
  }
  SHOAL_RULE std::uint32_t word() const {
    std::uint32_t word = exponent_ << 24U;
    for (std::size_t q = 0; q < quarters; ++q) word |= bits_[q] << 6U * q;
    return word;
  }
  SHOAL_RULE bool overflowed() const { return exponent_ == overflow; }
  /// The scale with its sign: the quarter's largest-magnitude element divided by it is about -1. NaN after overflow.
  SHOAL_RULE float of(std::size_t quarter) const {
    if (overflowed()) return std::bit_cast<float>(not_a_number);
    const float n = Number<float>::floats(static_cast<std::int32_t>(bits_[quarter] & 31U) + 1);
    const float scale = n * 0x1p-5F * std::bit_cast<float>(exponent_ << 23U);
    // There is no branch, since a processor could not predict the sign.
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) | (bits_[quarter] & 32U) << 26U);
  }

 private:
  std::uint32_t exponent_;
  std::uint32_t bits_[quarters] = {};
};

}  // namespace shoal::kernels::rules
