// SPDX-License-Identifier: Apache-2.0
// Quantization of one number, and the scales of a block; see include/shoal/kernels/quantize.hpp. A block is cut into one or
// more parts of equal length, of which the last may be shorter. Each part has its own unit: the value of a code is a whole
// number of units. The scales of a block's parts are in one word of 32 bits.
#pragma once

#include "kernels/rules/number.hpp"
#include "kernels/rules/quarter_scales.hpp"

namespace shoal::kernels::rules {

/// Bits of a float.
inline constexpr std::uint32_t infinite = 0x7f800000U;

/// The bits of v's magnitude, shifted left by one, and the sign in the lowest bit. The largest of these words of several
/// elements is called their extremum. It holds the largest magnitude and the sign of the element that has it; if there are
/// elements of both signs, 1. Infinity and NaN give at least 2 * infinite.
template <class V>
SHOAL_RULE typename Number<V>::Words turned(V v) {
  const auto bits = Number<V>::template cast<typename Number<V>::Words>(v);
  return (bits << 1U) | (bits >> 31U);
}

template <class V>
SHOAL_RULE V magnitude(V v) {
  using N = Number<V>;
  return N::template cast<V>(N::template cast<typename N::Words>(v) & 0x7fffffffU);
}

/// magnitude, which is not negative, with the sign of v.
template <class V>
SHOAL_RULE V with_sign_of(V v, V magnitude) {
  using N = Number<V>;
  using Words = typename N::Words;
  return N::template cast<V>(N::template cast<Words>(magnitude) | (N::template cast<Words>(v) & 0x80000000U));
}

/// Rounded to nearest, ties to even; |v| < 2^22.
template <class V>
SHOAL_RULE typename Number<V>::Ints nearest_integer(V v) {
  using N = Number<V>;
  return N::template cast<typename N::Ints>(v + to_integer) - std::bit_cast<std::int32_t>(to_integer);
}

/// The nearest code of `bits` bits.
template <int bits, class V>
SHOAL_RULE typename Number<V>::Ints nearest_code(V v) {
  using N = Number<V>;
  using Ints = typename N::Ints;
  constexpr std::int32_t least = -(1 << (bits - 1)), greatest = -least - 1;
  return N::larger(Ints{} + least, N::smaller(Ints{} + greatest, nearest_integer(v)));
}

/// Calls f(p, begin, elements) for each part p of a block of n elements.
template <class Code, class F>
SHOAL_RULE void for_parts(const Code& code, std::size_t n, const F& f) {
  if constexpr (Code::parts == 1) {
    f(0, 0, n);
  } else {
    for (std::size_t p = 0; p * code.part < n; ++p) {
      const std::size_t begin = p * code.part, left = n - begin;
      f(p, begin, left < code.part ? left : code.part);
    }
  }
}

/// QuantRounding::deepspeed. A block is one part; its word is the step, a float, which is NaN after overflow.
template <int bits_>
struct DeepSpeedCode {
  static constexpr int bits = bits_;
  static constexpr std::size_t parts = 1;
  std::size_t block, part;

  SHOAL_RULE explicit DeepSpeedCode(std::size_t elements) : block(elements), part(elements) {}
  /// The same with another number of bits.
  template <int other>
  SHOAL_RULE DeepSpeedCode<other> with() const {
    return DeepSpeedCode<other>(block);
  }

  /// The scales of a block that is encoded.
  class Encoder {
   public:
    /// extrema: of the parts; `largest` is the largest of them.
    SHOAL_RULE Encoder(const std::uint32_t* /*extrema*/, std::uint32_t largest) : overflowed_(largest >> 1U >= infinite) {
      constexpr float levels = 1U << bits;
      const auto magnitude = std::bit_cast<float>(largest >> 1U);
      // Below 2^-116 the division overflows. DeepSpeed's binary16 numbers are never as small.
      const bool some = !overflowed_ && magnitude >= 0x1p-116F;
      // levels / (2 magnitude), but twice the magnitude may overflow.
      per_unit_ = some ? levels / 2.0F / magnitude : 1.0F;
    }
    SHOAL_RULE std::uint32_t word() const {
      return overflowed_ ? not_a_number : std::bit_cast<std::uint32_t>(1.0F / per_unit_);
    }
    SHOAL_RULE bool overflowed() const { return overflowed_; }
    /// Units per 1 in a part, if the block has not overflowed.
    SHOAL_RULE float per_unit(std::size_t /*part*/) const { return per_unit_; }

   private:
    bool overflowed_;
    float per_unit_;
  };

  /// The scales of a block that is decoded.
  class Decoder {
   public:
    SHOAL_RULE explicit Decoder(std::uint32_t word) : word_(word) {}
    SHOAL_RULE bool overflowed() const { return (word_ & 0x7fffffffU) > infinite; }
    /// The unit of a part. NaN after overflow.
    SHOAL_RULE float unit(std::size_t /*part*/) const { return std::bit_cast<float>(word_); }

   private:
    std::uint32_t word_;
  };

  /// The code of a number of units, before nearest_code().
  template <class V>
  SHOAL_RULE static V code(V units) {
    return units;
  }
  /// The value of a code, in units.
  template <class V>
  SHOAL_RULE static V value(V code) {
    return code;
  }
};

/// QuantRounding::accurate. The parts of a block are its quarters.
template <int bits_>
struct AccurateCode {
  static constexpr int bits = bits_;
  static constexpr std::size_t parts = QuarterScales::quarters;
  /// The magnitude of the lowest code's value, in units. In INT4 the value of code k is
  /// k (16 + |k|) = sign(k) ((|k| + 8)^2 - 64) units.
  static constexpr float lowest = bits == 8 ? 128.0F : 192.0F;
  /// INT8 rounds the scale up, so that no element is cut off. INT4 rounds it to nearest: the distance between its codes is
  /// larger than the error of a scale that was rounded down.
  static constexpr QuarterScales::Round round = bits == 8 ? QuarterScales::Round::up : QuarterScales::Round::nearest;
  std::size_t block, part;

  /// A quarter has an even number of elements, so that its INT4 codes begin at a whole byte.
  SHOAL_RULE explicit AccurateCode(std::size_t elements)
      : block(elements), part(round_up((elements + parts - 1) / parts, 2)) {}
  template <int other>
  SHOAL_RULE AccurateCode<other> with() const {
    return AccurateCode<other>(block);
  }

  struct Encoder : QuarterScales {
    SHOAL_RULE Encoder(const std::uint32_t* extrema, std::uint32_t largest) : QuarterScales(extrema, largest, round) {}
    SHOAL_RULE float per_unit(std::size_t quarter) const { return 1.0F / (of(quarter) / lowest); }
  };
  struct Decoder : QuarterScales {
    SHOAL_RULE explicit Decoder(std::uint32_t word) : QuarterScales(word) {}
    SHOAL_RULE float unit(std::size_t quarter) const { return of(quarter) / lowest; }
  };

  template <class V>
  SHOAL_RULE static V code(V units) {
    if constexpr (bits == 8) {
      return units;
    } else {
      const V code = Number<V>::sqrt(magnitude(units) + 64.0F) - 8.0F;
      return with_sign_of(units, code);
    }
  }
  template <class V>
  SHOAL_RULE static V value(V code) {
    if constexpr (bits == 8) {
      return code;
    } else {
      return code * (magnitude(code) + 16.0F);
    }
  }
};

}  // namespace shoal::kernels::rules
