// SPDX-License-Identifier: Apache-2.0
// Loads and stores codes of 8 and 4 bits, sixteen at a time.
#pragma once

#include <cstring>

#include "simd.hpp"

namespace shoal::kernels {

template <int bits>
struct Codes;

template <>
struct Codes<8> {
  using Bytes = std::int8_t __attribute__((vector_size(16)));

  SHOAL_INLINE static std::byte* at(std::byte* codes, std::size_t i) { return codes + i; }
  SHOAL_INLINE static const std::byte* at(const std::byte* codes, std::size_t i) { return codes + i; }

  /// The first `lanes` of 16.
  SHOAL_INLINE static void store(simd::Ints codes, std::byte* to, std::size_t lanes) {
#if defined(__AVX512F__)
    const auto bytes = std::bit_cast<Bytes>(_mm512_maskz_cvtepi32_epi8(0xffff, std::bit_cast<__m512i>(codes)));
#else
    const Bytes bytes = __builtin_convertvector(codes, Bytes);
#endif
    std::memcpy(to, &bytes, lanes);
  }
  SHOAL_INLINE static simd::Ints load(const std::byte* from, std::size_t lanes) {
    Bytes bytes{};
    std::memcpy(&bytes, from, lanes);
#if defined(__AVX512F__)
    return std::bit_cast<simd::Ints>(_mm512_maskz_cvtepi8_epi32(0xffff, std::bit_cast<__m128i>(bytes)));
#else
    return __builtin_convertvector(bytes, simd::Ints);
#endif
  }
};

template <>
struct Codes<4> {
  using Bytes = std::uint8_t __attribute__((vector_size(8)));
  using Pairs = std::uint64_t __attribute__((vector_size(64)));  // two elements, the even-numbered one in the lower half

  SHOAL_INLINE static std::byte* at(std::byte* codes, std::size_t i) { return codes + i / 2; }
  SHOAL_INLINE static const std::byte* at(const std::byte* codes, std::size_t i) { return codes + i / 2; }

  SHOAL_INLINE static void store(simd::Ints codes, std::byte* to, std::size_t lanes) {
    const auto pairs = std::bit_cast<Pairs>(codes & 15);
    const Pairs packed = (pairs << 4U) | (pairs >> 32U);
#if defined(__AVX512F__)
    const long long bytes = _mm_cvtsi128_si64(_mm512_maskz_cvtepi64_epi8(0xff, std::bit_cast<__m512i>(packed)));
#else
    const Bytes bytes = __builtin_convertvector(packed & 255U, Bytes);
#endif
    std::memcpy(to, &bytes, (lanes + 1) / 2);
  }
  SHOAL_INLINE static simd::Ints load(const std::byte* from, std::size_t lanes) {
#if defined(__AVX512F__)
    long long bytes = 0;
    std::memcpy(&bytes, from, (lanes + 1) / 2);
    const auto packed = std::bit_cast<Pairs>(_mm512_maskz_cvtepu8_epi64(0xff, _mm_cvtsi64_si128(bytes)));
#else
    Bytes bytes{};
    std::memcpy(&bytes, from, (lanes + 1) / 2);
    const Pairs packed = __builtin_convertvector(bytes, Pairs);
#endif
    const auto codes = std::bit_cast<simd::Ints>((packed >> 4U) | (packed << 32U));
    return (codes << 28) >> 28;
  }
};

}  // namespace shoal::kernels
