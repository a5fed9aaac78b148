// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a kernel is written once, as a rule: a function of a number V. V is one float in kernels/portable, on
// any device, and a vector of sixteen floats in kernels/cpu. Both do the same operations in the same order, so they give the
// same bits. A rule uses C++'s operators, and Number<V> for all other operations.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "shoal/base/types.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// A function that takes a vector of sixteen floats by value has another ABI with AVX-512 than without. Rules are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

/// A rule is a small function, which is always inlined.
#define SHOAL_RULE SHOAL_FUNCTION __attribute__((always_inline))

namespace shoal::kernels::rules {

/// The sum of this and a number in -2^22 .. 2^22 has the nearest integer in its low bits; subtracting it again rounds.
inline constexpr float to_integer = 0x1.8p23F;

/// The operations on V. cpu/vectors/simd.hpp has those of the vector.
///   Words, Ints             as many unsigned and signed integers of 32 bits
///   of(x)                   the float x in each element
///   select(condition, a, b) a where the condition, which is the result of a comparison, holds, else b
///   smaller(i, j), larger(i, j)   of Ints
///   cast<To>(x)             the bits of x as a V, Words or Ints
///   fma(a, b, c)            a b + c with one rounding
///   sqrt(a)
///   max(a, b), min(a, b)    b if one of them is NaN
///   floats(i)               the integers i as floats
///   scale(p, n)             p 2^n with one rounding, for 0.5 <= p <= 2 and integers n in -151 .. 129
///   rough_reciprocal(a)     1 / a with a relative error of at most 2^-14, for |a| in 2^-126 .. 2^126; 1 / inf = 0
///   fraction(a)             a - floor(a) for |a| < 2^22; the processor may round it down or to nearest
///   scale_by_floor(p, a)    scale(p, floor(a)) for -151 <= a <= 129
///   scales_beyond_range     whether all a may be given to these two; then p 2^floor(a) is 0 or inf beyond that range
template <class V>
struct Number;

template <>
struct Number<float> {
  using Words = std::uint32_t;
  using Ints = std::int32_t;

  SHOAL_RULE static float of(float x) { return x; }
  template <class U>
  SHOAL_RULE static U select(bool condition, U a, U b) {
    return condition ? a : b;
  }
  SHOAL_RULE static Ints smaller(Ints a, Ints b) { return a < b ? a : b; }
  SHOAL_RULE static Ints larger(Ints a, Ints b) { return a > b ? a : b; }
  template <class To, class From>
  SHOAL_RULE static To cast(From x) {
    return std::bit_cast<To>(x);
  }
  SHOAL_RULE static float fma(float a, float b, float c) { return fmaf(a, b, c); }
  SHOAL_RULE static float sqrt(float a) { return sqrtf(a); }
  SHOAL_RULE static float max(float a, float b) { return a > b ? a : b; }
  SHOAL_RULE static float min(float a, float b) { return a < b ? a : b; }
  SHOAL_RULE static float floats(std::int32_t i) { return static_cast<float>(i); }
  SHOAL_RULE static float rough_reciprocal(float a) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0F, a);
#else
    return 1.0F / a;
#endif
  }
  SHOAL_RULE static float fraction(float a) { return a - floorf(a); }
  SHOAL_RULE static float scale_by_floor(float p, float a) { return scale(p, floorf(a)); }
  static constexpr bool scales_beyond_range = false;

  /// In two factors, since 2^n may not be a float. The first product is exact.
  SHOAL_RULE static float scale(float p, float n) {
    const std::int32_t exponent = std::bit_cast<std::int32_t>(n + to_integer) - std::bit_cast<std::int32_t>(to_integer);
    const std::int32_t half = exponent >> 1, rest = exponent - half;
    return p * power_of_two(half) * power_of_two(rest);
  }

 private:
  SHOAL_RULE static float power_of_two(std::int32_t n) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23U);
  }
};

}  // namespace shoal::kernels::rules
