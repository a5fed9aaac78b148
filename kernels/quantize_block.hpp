// SPDX-License-Identifier: Apache-2.0
// The arithmetic of one block: fp32 to scale and codes, and back. See include/shoal/kernels/quantize.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "codes.hpp"

namespace shoal::kernels {

inline constexpr std::uint32_t infinite = 0x7f800000U;

/// The bits of the largest magnitude, shifted left by one, and in the lowest bit the sign of the element that has it; if
/// there are elements of both signs, 1. Infinity and NaN give at least 2 * infinite.
SHOAL_INLINE std::uint32_t extremum(const float* x, std::size_t n) {
  simd::Words most{};
  simd::for_vectors(n, [&](std::size_t i, auto part) {
    const auto bits = std::bit_cast<simd::Words>(simd::load(x + i, part));
    const simd::Words turned = (bits << 1U) | (bits >> 31U);
    most = turned > most ? turned : most;
  });
  const auto fold = [&](simd::Words other) { most = other > most ? other : most; };
  fold(__builtin_shufflevector(most, most, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  fold(__builtin_shufflevector(most, most, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  fold(__builtin_shufflevector(most, most, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return std::max(most[0], most[1]);
}

/// codes = code_of(x), rounded and clamped to `bits` bits.
template <int bits, class CodeOf>
SHOAL_INLINE void encode_all(const float* x, std::size_t n, std::byte* codes, const CodeOf& code_of) {
  constexpr std::int32_t least = -(1 << (bits - 1)), greatest = -least - 1;
  simd::for_vectors(n, [=](std::size_t i, auto part) {
    simd::Ints code = rounded(code_of(simd::load(x + i, part)));
    code = code > greatest ? simd::Ints{} + greatest : code;
    code = code < least ? simd::Ints{} + least : code;
    Codes<bits>::store(code, Codes<bits>::at(codes, i), part.lanes);
  });
}

/// The use of decoded values: y = values, y += values or y -= values.
enum class Decode { replace, add, subtract };
template <int bits, Decode mode, class ValueOf>
SHOAL_INLINE void decode_all(const std::byte* codes, std::size_t n, float* y, const ValueOf& value_of) {
  simd::for_vectors(n, [=](std::size_t i, auto part) {
    const simd::Ints code = Codes<bits>::load(Codes<bits>::at(codes, i), part.lanes);
    simd::Floats v = value_of(__builtin_convertvector(code, simd::Floats));
    if constexpr (mode == Decode::add) v = simd::load(y + i, part) + v;
    if constexpr (mode == Decode::subtract) v = simd::load(y + i, part) - v;
    simd::store(y + i, v, part);
  });
}

template <int bits_>
struct DeepSpeedCode {
  static constexpr int bits = bits_;
  std::size_t block;
  explicit DeepSpeedCode(std::size_t elements) : block(elements) {}
  template <int other>
  DeepSpeedCode<other> with() const {
    return DeepSpeedCode<other>(block);
  }

  void encode(const float* x, std::size_t n, std::byte* scale, std::byte* codes) const {
    constexpr float levels = 1U << bits;
    const std::uint32_t magnitude = extremum(x, n) >> 1U;
    const bool finite = magnitude < infinite;
    const auto largest = std::bit_cast<float>(magnitude);
    // Below this the division overflows. DeepSpeed's binary16 numbers are never as small.
    const bool some = finite && largest >= 0x1p-116F;
    // levels / (2 largest), but twice the largest may overflow.
    const float per_unit = some ? levels / 2.0F / largest : 1.0F;
    const float step = finite ? 1.0F / per_unit : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(scale, &step, sizeof step);
    encode_all<bits>(x, n, codes, [=](simd::Floats v) { return finite ? v * per_unit : simd::Floats{}; });
  }

  template <Decode mode>
  void decode(const std::byte* scale, const std::byte* codes, std::size_t n, float* y) const {
    float step = 0.0F;
    std::memcpy(&step, scale, sizeof step);
    decode_all<bits, mode>(codes, n, y, [=](simd::Floats code) { return code * step; });
  }

  static bool overflowed(const std::byte* scale) {
    float step = 0.0F;
    std::memcpy(&step, scale, sizeof step);
    return std::isnan(step);
  }
};

/// The scales of a block in 32 bits. The upper 8 bits hold the exponent of a power of two that is at least the largest
/// magnitude, biased as in a float (127 means 1; 255 means overflow). The lower 24 bits hold n-1 (5 bits) and the sign for
/// each quarter.
class QuarterScales {
 public:
  static constexpr std::size_t quarters = 4;
  static constexpr std::uint32_t overflow = 255;
  /// The least exponent, of 2^-100. With n = 1 the least scale is 2^-105: smaller quarters have fewer codes, or are zero.
  static constexpr std::uint32_t least = 27;

  /// largest: the bits of the block's largest magnitude as a float.
  explicit QuarterScales(std::uint32_t largest) : exponent_(std::clamp((largest + 0x7fffffU) >> 23U, least, overflow)) {}
  explicit QuarterScales(const std::byte* from) {
    std::uint32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    exponent_ = word >> 24U;
    for (std::size_t q = 0; q < quarters; ++q) bits_[q] = word >> 6U * q & 63U;
  }
  void store(std::byte* to) const {
    std::uint32_t word = exponent_ << 24U;
    for (std::size_t q = 0; q < quarters; ++q) word |= bits_[q] << 6U * q;
    std::memcpy(to, &word, sizeof word);
  }
  bool overflowed() const { return exponent_ == overflow; }

  /// How a quarter's scale n/32 is rounded.
  enum class Round { up, nearest };
  /// extremum: the quarter's extremum().
  void set(std::size_t quarter, std::uint32_t extremum, Round round) {
    if (overflowed()) return;
    // 32 divided by the power of two: at most 2^105. The product is exact, or far below 1.
    const float per_scale = std::bit_cast<float>((254U + 5U - exponent_) << 23U);
    const float n = std::bit_cast<float>(extremum >> 1U) * per_scale;
    const auto whole = static_cast<std::uint32_t>(std::max(1.0F, round == Round::up ? std::ceil(n) : std::nearbyint(n)));
    bits_[quarter] = (whole - 1U) | (~extremum & 1U) << 5U;
  }
  /// The scale with its sign: the quarter's largest-magnitude element divided by it is about -1. NaN after overflow.
  float of(std::size_t quarter) const {
    if (overflowed()) return std::numeric_limits<float>::quiet_NaN();
    const auto n = static_cast<float>((bits_[quarter] & 31U) + 1U);
    const float scale = n * 0x1p-5F * std::bit_cast<float>(exponent_ << 23U);
    // There is no branch, since the processor could not predict the sign.
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) | (bits_[quarter] & 32U) << 26U);
  }

 private:
  std::uint32_t exponent_;
  std::uint32_t bits_[quarters] = {};
};

template <int bits_>
struct AccurateCode {
  static constexpr int bits = bits_;
  /// The magnitude of the lowest code's value, in units. In INT4 the value of code k is
  /// k (16 + |k|) = sign(k) ((|k| + 8)^2 - 64) units.
  static constexpr float lowest = bits == 8 ? 128.0F : 192.0F;

  std::size_t block, quarter;
  /// A quarter has an even number of elements, so that its INT4 codes begin at a whole byte.
  explicit AccurateCode(std::size_t elements)
      : block(elements), quarter(round_up((elements + QuarterScales::quarters - 1) / QuarterScales::quarters, 2)) {}
  template <int other>
  AccurateCode<other> with() const {
    return AccurateCode<other>(block);
  }

  void encode(const float* x, std::size_t n, std::byte* scale, std::byte* codes) const {
    std::uint32_t extrema[QuarterScales::quarters] = {};
    std::uint32_t largest = 0;
    for (std::size_t q = 0; q * quarter < n; ++q) {
      extrema[q] = extremum(x + q * quarter, std::min(quarter, n - q * quarter));
      largest = std::max(largest, extrema[q]);
    }
    QuarterScales scales(largest >> 1U);
    // INT8 rounds the scale up, so that no element is cut off. INT4 rounds it to nearest: the distance between its codes is
    // larger than the error of a scale that was rounded down.
    using Round = QuarterScales::Round;
    for (std::size_t q = 0; q < QuarterScales::quarters; ++q)
      scales.set(q, extrema[q], bits == 8 ? Round::up : Round::nearest);
    scales.store(scale);
    for (std::size_t q = 0; q * quarter < n; ++q) {
      const bool finite = !scales.overflowed();
      const float per_unit = 1.0F / (scales.of(q) / lowest);
      encode_all<bits>(x + q * quarter, std::min(quarter, n - q * quarter), Codes<bits>::at(codes, q * quarter),
                       [=](simd::Floats v) { return finite ? code_of(v * per_unit) : simd::Floats{}; });
    }
  }

  template <Decode mode>
  void decode(const std::byte* scale, const std::byte* codes, std::size_t n, float* y) const {
    const QuarterScales scales(scale);
    for (std::size_t q = 0; q * quarter < n; ++q) {
      const float unit = scales.of(q) / lowest;
      decode_all<bits, mode>(Codes<bits>::at(codes, q * quarter), std::min(quarter, n - q * quarter), y + q * quarter,
                             [=](simd::Floats code) { return value_of(code) * unit; });
    }
  }

  static bool overflowed(const std::byte* scale) { return QuarterScales(scale).overflowed(); }

 private:
  SHOAL_INLINE static simd::Floats magnitude(simd::Floats v) {
    return std::bit_cast<simd::Floats>(std::bit_cast<simd::Words>(v) & 0x7fffffffU);
  }
  /// The code of a value that is given in units, not rounded yet.
  SHOAL_INLINE static simd::Floats code_of(simd::Floats units) {
    if constexpr (bits == 8) return units;
    const simd::Floats code = simd::sqrt(magnitude(units) + 64.0F) - 8.0F;
    return units < 0.0F ? -code : code;
  }
  SHOAL_INLINE static simd::Floats value_of(simd::Floats code) {
    if constexpr (bits == 8) return code;
    return code * (magnitude(code) + 16.0F);
  }
};

}  // namespace shoal::kernels
