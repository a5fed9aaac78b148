// SPDX-License-Identifier: Apache-2.0
// Loads and stores codes of 8 and 4 bits, sixteen at a time.
#pragma once

#include <cstring>

#include "kernels/cpu/vectors/simd.hpp"

namespace shoal::kernels {

template <int bits>
struct Codes;

template <>
struct Codes<8> {
  SHOAL_INLINE static std::byte* at(std::byte* codes, std::size_t i) { return codes + i; }
  SHOAL_INLINE static const std::byte* at(const std::byte* codes, std::size_t i) { return codes + i; }

  /// The first `lanes` of 16.
  SHOAL_INLINE static void store(simd::Ints codes, std::byte* to, std::size_t lanes) {
#if defined(__AVX512F__)
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xffff, std::bit_cast<__m512i>(codes));
#else
    const Eight bytes[2] = {__builtin_convertvector(codes.lower, Eight), __builtin_convertvector(codes.upper, Eight)};
#endif
    std::memcpy(to, &bytes, lanes);
  }
  SHOAL_INLINE static simd::Ints load(const std::byte* from, std::size_t lanes) {
#if defined(__AVX512F__)
    __m128i bytes{};
    std::memcpy(&bytes, from, lanes);
    return std::bit_cast<simd::Ints>(_mm512_maskz_cvtepi8_epi32(0xffff, bytes));
#else
    Eight bytes[2] = {};
    std::memcpy(&bytes, from, lanes);
    using Register = simd::Ints::Register;
    return {__builtin_convertvector(bytes[0], Register), __builtin_convertvector(bytes[1], Register)};
#endif
  }

 private:
  using Eight = std::int8_t __attribute__((vector_size(8)));
};

template <>
struct Codes<4> {
  SHOAL_INLINE static std::byte* at(std::byte* codes, std::size_t i) { return codes + i / 2; }
  SHOAL_INLINE static const std::byte* at(const std::byte* codes, std::size_t i) { return codes + i / 2; }

  SHOAL_INLINE static void store(simd::Ints codes, std::byte* to, std::size_t lanes) {
#if defined(__AVX512F__)
    const auto packed = std::bit_cast<__m512i>(packed_in(std::bit_cast<Pairs<simd::Ints>>(codes & 15)));
    const long long bytes = _mm_cvtsi128_si64(_mm512_maskz_cvtepi64_epi8(0xff, packed));
#else
    using Register = Pairs<simd::Ints::Register>;
    const auto bytes_of = [](simd::Ints::Register part) {
      return __builtin_convertvector(packed_in(std::bit_cast<Register>(part & 15)) & 255U, Four);
    };
    const Four bytes[2] = {bytes_of(codes.lower), bytes_of(codes.upper)};
#endif
    std::memcpy(to, &bytes, (lanes + 1) / 2);
  }
  SHOAL_INLINE static simd::Ints load(const std::byte* from, std::size_t lanes) {
#if defined(__AVX512F__)
    long long bytes = 0;
    std::memcpy(&bytes, from, (lanes + 1) / 2);
    using Register = Pairs<simd::Ints>;
    const auto packed = std::bit_cast<Register>(_mm512_maskz_cvtepu8_epi64(0xff, _mm_cvtsi64_si128(bytes)));
    const auto codes = std::bit_cast<simd::Ints>(unpacked_in(packed));
#else
    Four bytes[2] = {};
    std::memcpy(&bytes, from, (lanes + 1) / 2);
    const auto codes_of = [](Four part) {
      using Register = Pairs<simd::Ints::Register>;
      return std::bit_cast<simd::Ints::Register>(unpacked_in(__builtin_convertvector(part, Register)));
    };
    const simd::Ints codes = {codes_of(bytes[0]), codes_of(bytes[1])};
#endif
    return (codes << 28) >> 28;
  }

 private:
  using Four = std::uint8_t __attribute__((vector_size(4)));
  /// Two elements, the even-numbered one in the lower half, as one of 64 bits.
  template <class Register>
  struct PairsOf {
    using Type [[gnu::vector_size(sizeof(Register))]] = std::uint64_t;
  };
  template <class Register>
  using Pairs = typename PairsOf<Register>::Type;

  /// The even-numbered code in the upper four bits of the lowest byte.
  template <class P>
  SHOAL_INLINE static P packed_in(P pairs) {
    return (pairs << 4U) | (pairs >> 32U);
  }
  template <class P>
  SHOAL_INLINE static P unpacked_in(P packed) {
    return (packed >> 4U) | (packed << 32U);
  }
};

}  // namespace shoal::kernels
