// SPDX-License-Identifier: Apache-2.0
// Vectors of sixteen elements, by the compiler's vector extensions: one register of AVX-512, or a class of two smaller
// registers. (GCC keeps vectors that are larger than a register in memory, and takes some apart element by element.) Both
// have C++'s operators, lane by lane. The functions below are for what has another form in each of them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#endif

#define SHOAL_INLINE inline __attribute__((always_inline))

namespace shoal::kernels::simd {

inline constexpr std::size_t width = 16;

#if defined(__AVX512F__)
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));  // also a mask: all bits of a lane, or none
using Words = std::uint32_t __attribute__((vector_size(64)));
using Doubles = double __attribute__((vector_size(64)));  // eight
#else
/// A vector in two registers of 32 bytes. Operators also take single elements, which stand for sixteen equal ones.
template <typename E>
struct TwoRegisters {
  using Register [[gnu::vector_size(32)]] = E;
  using Mask = TwoRegisters<std::int32_t>;
  static constexpr std::size_t half = sizeof(Register) / sizeof(E);
  Register lower{}, upper{};

  TwoRegisters() = default;
  SHOAL_INLINE TwoRegisters(Register l, Register u) : lower(l), upper(u) {}
  SHOAL_INLINE TwoRegisters(E x) : TwoRegisters(x - Register{}, x - Register{}) {}  // NOLINT(google-explicit-constructor)

  SHOAL_INLINE E operator[](std::size_t lane) const { return lane < half ? lower[lane] : upper[lane - half]; }

  SHOAL_INLINE TwoRegisters operator-() const { return {-lower, -upper}; }
  SHOAL_INLINE TwoRegisters operator~() const { return {~lower, ~upper}; }
  SHOAL_INLINE TwoRegisters operator<<(int n) const { return {lower << n, upper << n}; }
  SHOAL_INLINE TwoRegisters operator>>(int n) const { return {lower >> n, upper >> n}; }
  SHOAL_INLINE TwoRegisters& operator+=(TwoRegisters b) { return *this = *this + b; }
  SHOAL_INLINE TwoRegisters& operator-=(TwoRegisters b) { return *this = *this - b; }
  SHOAL_INLINE TwoRegisters& operator*=(TwoRegisters b) { return *this = *this * b; }

  friend SHOAL_INLINE TwoRegisters operator+(TwoRegisters a, TwoRegisters b) {
    return {a.lower + b.lower, a.upper + b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator-(TwoRegisters a, TwoRegisters b) {
    return {a.lower - b.lower, a.upper - b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator*(TwoRegisters a, TwoRegisters b) {
    return {a.lower * b.lower, a.upper * b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator/(TwoRegisters a, TwoRegisters b) {
    return {a.lower / b.lower, a.upper / b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator&(TwoRegisters a, TwoRegisters b) {
    return {a.lower & b.lower, a.upper & b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator|(TwoRegisters a, TwoRegisters b) {
    return {a.lower | b.lower, a.upper | b.upper};
  }
  friend SHOAL_INLINE TwoRegisters operator^(TwoRegisters a, TwoRegisters b) {
    return {a.lower ^ b.lower, a.upper ^ b.upper};
  }
  friend SHOAL_INLINE Mask operator==(TwoRegisters a, TwoRegisters b) { return {a.lower == b.lower, a.upper == b.upper}; }
  friend SHOAL_INLINE Mask operator!=(TwoRegisters a, TwoRegisters b) { return {a.lower != b.lower, a.upper != b.upper}; }
  friend SHOAL_INLINE Mask operator<(TwoRegisters a, TwoRegisters b) { return {a.lower < b.lower, a.upper < b.upper}; }
  friend SHOAL_INLINE Mask operator>(TwoRegisters a, TwoRegisters b) { return {a.lower > b.lower, a.upper > b.upper}; }
  friend SHOAL_INLINE Mask operator<=(TwoRegisters a, TwoRegisters b) { return {a.lower <= b.lower, a.upper <= b.upper}; }
  friend SHOAL_INLINE Mask operator>=(TwoRegisters a, TwoRegisters b) { return {a.lower >= b.lower, a.upper >= b.upper}; }
};
using Floats = TwoRegisters<float>;
using Ints = TwoRegisters<std::int32_t>;  // also a mask: all bits of a lane, or none
using Words = TwoRegisters<std::uint32_t>;
using Doubles = TwoRegisters<double>;  // eight
#endif

/// The bits of v as another vector.
template <class To, class From>
SHOAL_INLINE To cast(From v) {
#if defined(__AVX512F__)
  return std::bit_cast<To>(v);
#else
  using Register = typename To::Register;
  return {std::bit_cast<Register>(v.lower), std::bit_cast<Register>(v.upper)};
#endif
}

/// a where the mask is set, else b.
template <class V>
SHOAL_INLINE V select(Ints mask, V a, V b) {
#if defined(__AVX512F__)
  return mask ? a : b;
#else
  return {mask.lower ? a.lower : b.lower, mask.upper ? a.upper : b.upper};
#endif
}

/// The smaller and the larger integer, lane by lane: one instruction each, which compilers find only in this form.
template <class V>
SHOAL_INLINE V smaller(V a, V b) {
#if defined(__AVX512F__)
  return a < b ? a : b;
#else
  return {a.lower < b.lower ? a.lower : b.lower, a.upper < b.upper ? a.upper : b.upper};
#endif
}
template <class V>
SHOAL_INLINE V larger(V a, V b) {
#if defined(__AVX512F__)
  return a > b ? a : b;
#else
  return {a.lower > b.lower ? a.lower : b.lower, a.upper > b.upper ? a.upper : b.upper};
#endif
}

/// Loads and stores all bytes of a vector.
template <class V>
SHOAL_INLINE V load_bytes(const void* from) {
  V v;
#if defined(__AVX512F__)
  std::memcpy(&v, from, sizeof v);
#else
  std::memcpy(&v.lower, from, sizeof v.lower);
  std::memcpy(&v.upper, static_cast<const std::byte*>(from) + sizeof v.lower, sizeof v.upper);
#endif
  return v;
}
template <class V>
SHOAL_INLINE void store_bytes(void* to, V v) {
#if defined(__AVX512F__)
  std::memcpy(to, &v, sizeof v);
#else
  std::memcpy(to, &v.lower, sizeof v.lower);
  std::memcpy(static_cast<std::byte*>(to) + sizeof v.lower, &v.upper, sizeof v.upper);
#endif
}

/// 0, 1, ... 15.
SHOAL_INLINE Ints lane_numbers() {
#if defined(__AVX512F__)
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
  return {Ints::Register{0, 1, 2, 3, 4, 5, 6, 7}, Ints::Register{8, 9, 10, 11, 12, 13, 14, 15}};
#endif
}

/// Integers below 2^31 as floats.
SHOAL_INLINE Floats to_floats(Ints v) {
#if defined(__AVX512F__)
  return __builtin_convertvector(v, Floats);
#else
  return {__builtin_convertvector(v.lower, Floats::Register), __builtin_convertvector(v.upper, Floats::Register)};
#endif
}

}  // namespace shoal::kernels::simd
