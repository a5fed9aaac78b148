// SPDX-License-Identifier: Apache-2.0
// Vectors of sixteen floats, by the compiler's vector extensions: one AVX-512 register, or two or four smaller registers.
// The tail of a loop is a partial vector padded with zeros, which goes through the same code, and multiply-adds are fused
// only by fma(). So the bits of an element do not depend on its position in a buffer.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../rules/number.hpp"
#include "shoal/base/types.hpp"

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

#define SHOAL_INLINE inline __attribute__((always_inline))

namespace shoal::kernels::simd {

inline constexpr std::size_t width = 16;

using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));  // also a mask: all bits of a lane, or none
using Words = std::uint32_t __attribute__((vector_size(64)));
using Halves = std::uint16_t __attribute__((vector_size(32)));  // sixteen bf16 or f16
using Doubles = double __attribute__((vector_size(64)));        // eight

SHOAL_INLINE Floats broadcast(float value) { return value - Floats{}; }

/// a * b + c with one rounding.
SHOAL_INLINE Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#else
  Floats r;
  for (std::size_t l = 0; l < width; ++l) r[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return r;
#endif
}

SHOAL_INLINE Floats sqrt(Floats a) {
#if defined(__AVX512F__)  // masked forms, here and below: GCC 12 warns about the other forms
  return _mm512_maskz_sqrt_ps(0xffff, a);
#else
  for (std::size_t l = 0; l < width; ++l) a[l] = std::sqrt(a[l]);
  return a;
#endif
}

/// The larger and the smaller value, lane by lane; b if one of them is NaN.
SHOAL_INLINE Floats max(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#else
  return a > b ? a : b;
#endif
}
SHOAL_INLINE Floats min(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#else
  return a < b ? a : b;
#endif
}

// ---- memory ----------------------------------------------------------------------------------------------------------

/// Storage types of 16 bits.
template <typename T>
concept Half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

SHOAL_INLINE Words words_of(Halves bits) {
#if defined(__AVX512F__)  // GCC 12 would convert two halves
  return std::bit_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(bits)));
#else
  return __builtin_convertvector(bits, Words);
#endif
}

/// f16's conversions by integer arithmetic as in base/types.hpp, for processors without instructions for them.
SHOAL_INLINE Floats widen_f16_by_parts(Halves halves) {
  const Words bits = words_of(halves), size = (bits & 0x7fffU) << 13U;
  const Floats small = std::bit_cast<Floats>(size + 0x38800000U) - 0x1p-14F;
  const Words quiet = size > 0x7c00U << 13U ? Words{} + 0x400000U : Words{};
  Words wide = size < 0x400U << 13U ? std::bit_cast<Words>(small) : size + (112U << 23U);
  wide = size >= 0x7c00U << 13U ? size | 0x7f800000U | quiet : wide;
  return std::bit_cast<Floats>(((bits & 0x8000U) << 16U) | wide);
}
SHOAL_INLINE Halves narrow_f16_by_parts(Floats values) {
  const auto bits = std::bit_cast<Words>(values);
  const Words size = bits & 0x7fffffffU;
  const Words small = std::bit_cast<Words>(std::bit_cast<Floats>(size) + 0.5F) - 0x3f000000U;
  Words half = (size - (112U << 23U) + 0xfffU + (size >> 13U & 1U)) >> 13U;
  half = size < 0x38800000U ? small : half;
  half = size >= 0x47800000U ? Words{} + 0x7c00U : half;
  half = size > 0x7f800000U ? 0x7e00U | (size >> 13U & 0x3ffU) : half;
  return __builtin_convertvector(half | (bits >> 16U & 0x8000U), Halves);
}

template <Half T>
SHOAL_INLINE Floats widen(Halves bits) {
  if constexpr (std::is_same_v<T, bf16>) return std::bit_cast<Floats>(words_of(bits) << 16U);
#if defined(__AVX512F__)
  return std::bit_cast<Floats>(_mm512_maskz_cvtph_ps(0xffff, std::bit_cast<__m256i>(bits)));
#elif defined(__F16C__)
  __m128i parts[2];
  std::memcpy(parts, &bits, sizeof parts);
  const __m256 wide[2] = {_mm256_cvtph_ps(parts[0]), _mm256_cvtph_ps(parts[1])};
  Floats values;
  std::memcpy(&values, wide, sizeof values);
  return values;
#else
  return widen_f16_by_parts(bits);
#endif
}

/// Rounds as the type's constructor does: to nearest, ties to even, NaN stays NaN.
template <Half T>
SHOAL_INLINE Halves narrow(Floats values) {
  if constexpr (std::is_same_v<T, bf16>) {
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
    // The instruction treats subnormal numbers as zero. If there are any, the code below rounds them.
    if (__builtin_expect(_mm512_fpclass_ps_mask(values, 0x20) == 0, 1)) {
      return std::bit_cast<Halves>(_mm512_cvtneps_pbh(values));
    }
#endif
    const auto wide = std::bit_cast<Words>(values);
    const Words rounded = (wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U;
    const Words quiet = (wide >> 16U) | 0x40U;
    return __builtin_convertvector(values != values ? quiet : rounded, Halves);  // NOLINT(misc-redundant-expression): NaN
  }
#if defined(__AVX512F__)
  return std::bit_cast<Halves>(_mm512_maskz_cvtps_ph(0xffff, values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  __m256 parts[2];
  std::memcpy(parts, &values, sizeof parts);
  const __m128i halves[2] = {_mm256_cvtps_ph(parts[0], _MM_FROUND_TO_NEAREST_INT),
                             _mm256_cvtps_ph(parts[1], _MM_FROUND_TO_NEAREST_INT)};
  Halves bits;
  std::memcpy(&bits, halves, sizeof bits);
  return bits;
#else
  return narrow_f16_by_parts(values);
#endif
}

SHOAL_INLINE Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <Half T>
SHOAL_INLINE Floats load(const T* from) {
  Halves v;
  std::memcpy(&v, from, sizeof v);
  return widen<T>(v);
}
SHOAL_INLINE void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }
template <Half T>
SHOAL_INLINE void store(T* to, Floats v) {
  const Halves bits = narrow<T>(v);
  std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
}

/// Non-temporal stores of a whole cache line to an aligned address; bf16 and f16 are rounded as by store(). Call
/// wait_for_streams() before another thread reads the line.
SHOAL_INLINE void stream(float* to, Floats v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, v);
#else
  store(to, v);
#endif
}
template <Half T>
SHOAL_INLINE void stream(T* to, Floats first, Floats second) {
#if defined(__AVX512F__)
  __m512i line;
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
  if constexpr (std::is_same_v<T, bf16>) {
    if (__builtin_expect((_mm512_fpclass_ps_mask(first, 0x20) | _mm512_fpclass_ps_mask(second, 0x20)) == 0, 1)) {
      line = std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
      return;
    }
  }
#endif
  const Halves both[2] = {narrow<T>(first), narrow<T>(second)};
  std::memcpy(&line, both, sizeof line);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
#else
  store(to, first);
  store(to + width, second);
#endif
}
SHOAL_INLINE void wait_for_streams() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

/// Loads and stores of the first `lanes` of 16 elements. The other lanes of a loaded vector are zero.
SHOAL_INLINE Floats load(const float* from, std::size_t lanes) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << lanes) - 1U), from);
#else
  Floats v{};
  std::memcpy(&v, from, lanes * sizeof(float));
  return v;
#endif
}
template <Half T>
SHOAL_INLINE Floats load(const T* from, std::size_t lanes) {
  Halves v{};
  std::memcpy(&v, from, lanes * sizeof(T));
  return widen<T>(v);
}
SHOAL_INLINE void store(float* to, Floats v, std::size_t lanes) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << lanes) - 1U), v);
#else
  std::memcpy(to, &v, lanes * sizeof(float));
#endif
}
template <Half T>
SHOAL_INLINE void store(T* to, Floats v, std::size_t lanes) {
  const Halves bits = narrow<T>(v);
  std::memcpy(static_cast<void*>(to), &bits, lanes * sizeof(T));
}

/// A mask of lanes 0 .. lanes-1.
SHOAL_INLINE Ints first(std::size_t lanes) {
  constexpr Ints index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return index < static_cast<std::int32_t>(lanes);
}

/// for_vectors() loops over n elements: it calls body(i, All{}) for each whole vector, which begins at element i, and
/// body(i, Some{lanes}) for the tail.
struct All {
  static constexpr bool partial = false;
  static constexpr std::size_t lanes = width;
};
struct Some {
  static constexpr bool partial = true;
  std::size_t lanes;
};
template <class Body>
SHOAL_INLINE void for_vectors(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + width <= n; i += width) body(i, All{});
  if (i < n) body(i, Some{n - i});
}
template <typename T>
SHOAL_INLINE Floats load(const T* from, All) {
  return load(from);
}
template <typename T>
SHOAL_INLINE Floats load(const T* from, Some part) {
  return load(from, part.lanes);
}
template <typename T>
SHOAL_INLINE void store(T* to, Floats v, All) {
  store(to, v);
}
template <typename T>
SHOAL_INLINE void store(T* to, Floats v, Some part) {
  store(to, v, part.lanes);
}

// ---- reductions over the lanes, always in the same order: one half is added to the other --------------------------------

SHOAL_INLINE float sum(Floats v) {
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return v[0] + v[1];
}
SHOAL_INLINE double sum(Doubles v) {
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  return v[0] + v[1];
}
SHOAL_INLINE float max(Floats v) {
  v = max(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = max(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = max(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return v[0] > v[1] ? v[0] : v[1];
}

/// Eight lanes in double: the lower or the upper half.
SHOAL_INLINE Doubles lower(Floats v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), Doubles);
}
SHOAL_INLINE Doubles upper(Floats v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), Doubles);
}

// ---- rules -------------------------------------------------------------------------------------------------------------

SHOAL_INLINE Floats floor(Floats a) {
#if defined(__AVX512F__)
  return _mm512_maskz_roundscale_ps(0xffff, a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  for (std::size_t l = 0; l < width; ++l) a[l] = std::floor(a[l]);
  return a;
#endif
}

/// p 2^n; see rules/number.hpp.
SHOAL_INLINE Floats scale(Floats p, Floats n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  const Ints exponent = std::bit_cast<Ints>(n + rules::to_integer) - std::bit_cast<std::int32_t>(rules::to_integer);
  const Ints half = exponent >> 1;
  return p * std::bit_cast<Floats>((half + 127) << 23) * std::bit_cast<Floats>((exponent - half + 127) << 23);
#endif
}

/// 1 / x with a relative error of 2^-14, for |x| from 2^-126 to 2^126: accurate enough for 16-bit results. 1 / inf = 0; NaN
/// stays NaN.
SHOAL_INLINE Floats rough_reciprocal(Floats x) {
#if defined(__AVX512F__)
  return _mm512_maskz_rcp14_ps(0xffff, x);
#else
  return 1.0F / x;
#endif
}

}  // namespace shoal::kernels::simd

namespace shoal::kernels::rules {

template <>
struct Number<simd::Floats> {
  using V = simd::Floats;
  using Words = simd::Words;
  using Ints = simd::Ints;

  SHOAL_INLINE static V of(float x) { return simd::broadcast(x); }
  SHOAL_INLINE static V fma(V a, V b, V c) { return simd::fma(a, b, c); }
  SHOAL_INLINE static V sqrt(V a) { return simd::sqrt(a); }
  SHOAL_INLINE static V max(V a, V b) { return simd::max(a, b); }
  SHOAL_INLINE static V min(V a, V b) { return simd::min(a, b); }
  SHOAL_INLINE static V floats(Ints i) { return __builtin_convertvector(i, V); }
  SHOAL_INLINE static V scale(V p, V n) { return simd::scale(p, n); }
  SHOAL_INLINE static V rough_reciprocal(V a) { return simd::rough_reciprocal(a); }
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  SHOAL_INLINE static V fraction(V a) { return _mm512_maskz_reduce_ps(0xffff, a, _MM_FROUND_TO_NEG_INF); }
  SHOAL_INLINE static V scale_by_floor(V p, V a) { return _mm512_maskz_scalef_ps(0xffff, p, a); }
  static constexpr bool scales_beyond_range = true;
#else
  SHOAL_INLINE static V fraction(V a) { return a - simd::floor(a); }
  SHOAL_INLINE static V scale_by_floor(V p, V a) { return simd::scale(p, simd::floor(a)); }
  static constexpr bool scales_beyond_range = false;
#endif
};

}  // namespace shoal::kernels::rules
