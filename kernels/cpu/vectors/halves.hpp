// SPDX-License-Identifier: Apache-2.0
// Sixteen bf16 or f16: their conversions to floats and back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/vectors/vectors.hpp"
#include "shoal/base/types.hpp"

namespace shoal::kernels::simd {

using Halves = std::uint16_t __attribute__((vector_size(32)));

/// Storage types of 16 bits.
template <typename T>
concept Half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

SHOAL_INLINE Words words_of(Halves bits) {
#if defined(__AVX512F__)  // GCC 12 would convert two halves
  return std::bit_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, std::bit_cast<__m256i>(bits)));
#else
  const auto lower = __builtin_shufflevector(bits, bits, 0, 1, 2, 3, 4, 5, 6, 7);
  const auto upper = __builtin_shufflevector(bits, bits, 8, 9, 10, 11, 12, 13, 14, 15);
  return {__builtin_convertvector(lower, Words::Register), __builtin_convertvector(upper, Words::Register)};
#endif
}
/// The lower halves of words that are less than 2^16.
SHOAL_INLINE Halves halves_of(Words words) {
#if defined(__AVX512F__)
  return __builtin_convertvector(words, Halves);
#elif defined(__AVX2__)
  const __m256i by_quarters = _mm256_packus_epi32(std::bit_cast<__m256i>(words.lower), std::bit_cast<__m256i>(words.upper));
  return std::bit_cast<Halves>(_mm256_permute4x64_epi64(by_quarters, 0b11011000));
#else
  Halves halves;
  for (std::size_t l = 0; l < width; ++l) halves[l] = static_cast<std::uint16_t>(words[l]);
  return halves;
#endif
}

/// f16's conversions by integer arithmetic as in base/types.hpp, for processors without instructions for them.
SHOAL_INLINE Floats widen_f16_by_parts(Halves halves) {
  const Words bits = words_of(halves), size = (bits & 0x7fffU) << 13U;
  const Floats small = cast<Floats>(size + 0x38800000U) - 0x1p-14F;
  const Words quiet = select(size > 0x7c00U << 13U, Words{} + 0x400000U, Words{});
  Words wide = select(size < 0x400U << 13U, cast<Words>(small), size + (112U << 23U));
  wide = select(size >= 0x7c00U << 13U, size | 0x7f800000U | quiet, wide);
  return cast<Floats>(((bits & 0x8000U) << 16U) | wide);
}
SHOAL_INLINE Halves narrow_f16_by_parts(Floats values) {
  const auto bits = cast<Words>(values);
  const Words size = bits & 0x7fffffffU;
  const Words small = cast<Words>(cast<Floats>(size) + 0.5F) - 0x3f000000U;
  Words half = (size - (112U << 23U) + 0xfffU + ((size >> 13U) & 1U)) >> 13U;
  half = select(size < 0x38800000U, small, half);
  half = select(size >= 0x47800000U, Words{} + 0x7c00U, half);
  half = select(size > 0x7f800000U, 0x7e00U | ((size >> 13U) & 0x3ffU), half);
  return halves_of(half | ((bits >> 16U) & 0x8000U));
}

template <Half T>
SHOAL_INLINE Floats widen(Halves bits) {
  if constexpr (std::is_same_v<T, bf16>) return cast<Floats>(words_of(bits) << 16U);
#if defined(__AVX512F__)
  return std::bit_cast<Floats>(_mm512_maskz_cvtph_ps(0xffff, std::bit_cast<__m256i>(bits)));
#elif defined(__F16C__)
  const auto all = std::bit_cast<__m256i>(bits);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(all)), _mm256_cvtph_ps(_mm256_extractf128_si256(all, 1))};
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
    const auto wide = cast<Words>(values);
    const Words rounded = (wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U;
    const Words quiet = (wide >> 16U) | 0x40U;
    return halves_of(select(values != values, quiet, rounded));  // NOLINT(misc-redundant-expression): NaN
  }
#if defined(__AVX512F__)
  return std::bit_cast<Halves>(_mm512_maskz_cvtps_ph(0xffff, values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  const __m128i lower = _mm256_cvtps_ph(values.lower, _MM_FROUND_TO_NEAREST_INT);
  const __m128i upper = _mm256_cvtps_ph(values.upper, _MM_FROUND_TO_NEAREST_INT);
  return std::bit_cast<Halves>(_mm256_set_m128i(upper, lower));
#else
  return narrow_f16_by_parts(values);
#endif
}

}  // namespace shoal::kernels::simd
