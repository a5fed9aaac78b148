// SPDX-License-Identifier: Apache-2.0
// Arithmetic, loads and stores of vectors of sixteen floats (vectors.hpp). The tail of a loop is a partial vector padded
// with zeros, which goes through the same code, and multiply-adds are fused only by fma(). So the bits of an element do not
// depend on its position in a buffer.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/vectors/halves.hpp"
#include "kernels/cpu/vectors/lanes.hpp"
#include "kernels/cpu/vectors/vectors.hpp"
#include "kernels/rules/number.hpp"

namespace shoal::kernels::simd {

SHOAL_INLINE Floats broadcast(float value) { return value - Floats{}; }

#if !defined(__AVX512F__)
/// Calls f for each lane.
template <class F, class... V>
SHOAL_INLINE Floats by_lane(const F& f, const V&... v) {
  std::array<float, width> r;
  for (std::size_t l = 0; l < width; ++l) r[l] = f(v[l]...);
  return load_bytes<Floats>(r.data());
}
#endif

/// a * b + c with one rounding.
SHOAL_INLINE Floats fma(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return {_mm256_fmadd_ps(a.lower, b.lower, c.lower), _mm256_fmadd_ps(a.upper, b.upper, c.upper)};
#else
  return by_lane([](float x, float y, float z) { return __builtin_fmaf(x, y, z); }, a, b, c);
#endif
}

SHOAL_INLINE Floats sqrt(Floats a) {
#if defined(__AVX512F__)  // masked forms, here and below: GCC 12 warns about the other forms
  return _mm512_maskz_sqrt_ps(0xffff, a);
#elif defined(__AVX__)
  return {_mm256_sqrt_ps(a.lower), _mm256_sqrt_ps(a.upper)};
#else
  return by_lane([](float x) { return std::sqrt(x); }, a);
#endif
}

/// The larger and the smaller value, lane by lane; b if one of them is NaN.
SHOAL_INLINE Floats max(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#elif defined(__AVX__)
  return {_mm256_max_ps(a.lower, b.lower), _mm256_max_ps(a.upper, b.upper)};
#else
  return select(a > b, a, b);
#endif
}
SHOAL_INLINE Floats min(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#elif defined(__AVX__)
  return {_mm256_min_ps(a.lower, b.lower), _mm256_min_ps(a.upper, b.upper)};
#else
  return select(a < b, a, b);
#endif
}

// ---- memory ----------------------------------------------------------------------------------------------------------

SHOAL_INLINE Floats load(const float* from) { return load_bytes<Floats>(from); }
template <Half T>
SHOAL_INLINE Floats load(const T* from) {
  Halves v;
  std::memcpy(&v, from, sizeof v);
  return widen<T>(v);
}
SHOAL_INLINE void store(float* to, Floats v) { store_bytes(to, v); }
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
#elif defined(__AVX__)
  _mm256_stream_ps(to, v.lower);
  _mm256_stream_ps(to + width / 2, v.upper);
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
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), std::bit_cast<__m256i>(narrow<T>(first)));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + width), std::bit_cast<__m256i>(narrow<T>(second)));
#else
  store(to, first);
  store(to + width, second);
#endif
}
SHOAL_INLINE void wait_for_streams() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

/// A mask of lanes 0 .. lanes-1.
SHOAL_INLINE Ints first(std::size_t lanes) { return lane_numbers() < static_cast<std::int32_t>(lanes); }

/// Loads and stores of the first `lanes` of 16 elements. The other lanes of a loaded vector are zero.
SHOAL_INLINE Floats load(const float* from, std::size_t lanes) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << lanes) - 1U), from);
#elif defined(__AVX2__)
  const Ints mask = first(lanes);
  return {_mm256_maskload_ps(from, std::bit_cast<__m256i>(mask.lower)),
          _mm256_maskload_ps(from + width / 2, std::bit_cast<__m256i>(mask.upper))};
#else
  std::array<float, width> v{};
  std::memcpy(v.data(), from, lanes * sizeof(float));
  return load(v.data());
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
#elif defined(__AVX2__)
  const Ints mask = first(lanes);
  _mm256_maskstore_ps(to, std::bit_cast<__m256i>(mask.lower), v.lower);
  _mm256_maskstore_ps(to + width / 2, std::bit_cast<__m256i>(mask.upper), v.upper);
#else
  std::array<float, width> all;
  store(all.data(), v);
  std::memcpy(to, all.data(), lanes * sizeof(float));
#endif
}
template <Half T>
SHOAL_INLINE void store(T* to, Floats v, std::size_t lanes) {
  const Halves bits = narrow<T>(v);
  std::memcpy(static_cast<void*>(to), &bits, lanes * sizeof(T));
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
  v += exchanged<8>(v);
  v += exchanged<4>(v);
  v += exchanged<2>(v);
  return v[0] + v[1];
}
SHOAL_INLINE double sum(Doubles v) {
  v += exchanged<4>(v);
  v += exchanged<2>(v);
  return v[0] + v[1];
}
SHOAL_INLINE float max(Floats v) {
  v = max(v, exchanged<8>(v));
  v = max(v, exchanged<4>(v));
  v = max(v, exchanged<2>(v));
  return v[0] > v[1] ? v[0] : v[1];
}

/// Eight lanes in double: the lower or the upper half.
#if defined(__AVX512F__)
SHOAL_INLINE Doubles lower(Floats v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), Doubles);
}
SHOAL_INLINE Doubles upper(Floats v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), Doubles);
}
#else
SHOAL_INLINE Doubles doubles_of(Floats::Register v) {
  return {__builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), Doubles::Register),
          __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), Doubles::Register)};
}
SHOAL_INLINE Doubles lower(Floats v) { return doubles_of(v.lower); }
SHOAL_INLINE Doubles upper(Floats v) { return doubles_of(v.upper); }
#endif

// ---- rules -------------------------------------------------------------------------------------------------------------

SHOAL_INLINE Floats floor(Floats a) {
#if defined(__AVX512F__)
  return _mm512_maskz_roundscale_ps(0xffff, a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(__AVX__)
  return {_mm256_floor_ps(a.lower), _mm256_floor_ps(a.upper)};
#else
  return by_lane([](float x) { return std::floor(x); }, a);
#endif
}

/// p 2^n; see rules/number.hpp.
SHOAL_INLINE Floats scale(Floats p, Floats n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  const Ints exponent = cast<Ints>(n + rules::to_integer) - std::bit_cast<std::int32_t>(rules::to_integer);
  const Ints half = exponent >> 1;
  return p * cast<Floats>((half + 127) << 23) * cast<Floats>((exponent - half + 127) << 23);
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
  template <class U>
  SHOAL_INLINE static U select(Ints mask, U a, U b) {
    return simd::select(mask, a, b);
  }
  SHOAL_INLINE static Ints smaller(Ints a, Ints b) { return simd::smaller(a, b); }
  SHOAL_INLINE static Ints larger(Ints a, Ints b) { return simd::larger(a, b); }
  template <class To, class From>
  SHOAL_INLINE static To cast(From v) {
    return simd::cast<To>(v);
  }
  SHOAL_INLINE static V fma(V a, V b, V c) { return simd::fma(a, b, c); }
  SHOAL_INLINE static V sqrt(V a) { return simd::sqrt(a); }
  SHOAL_INLINE static V max(V a, V b) { return simd::max(a, b); }
  SHOAL_INLINE static V min(V a, V b) { return simd::min(a, b); }
  SHOAL_INLINE static V floats(Ints i) { return simd::to_floats(i); }
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
