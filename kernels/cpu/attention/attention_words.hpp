// SPDX-License-Identifier: Apache-2.0
// The operands of attention's products by vector instructions: words of one float, or of two neighbouring bf16. So the same
// loop over words computes both kinds of products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/cpu/vectors/words.hpp"
#include "shoal/base/types.hpp"

#if defined(__FMA__)
#include <immintrin.h>
#endif

namespace shoal::kernels::attention {

using simd::Floats, simd::Halves;

// The sums are kept in single registers.
#if defined(__AVX512F__)
using Register = Floats;
using RegisterWords = Words;
SHOAL_INLINE Register fma(Register a, Register b, Register c) { return simd::fma(a, b, c); }
#else
using Register = Floats::Register;
using RegisterWords = Words::Register;
SHOAL_INLINE Register fma(Register a, Register b, Register c) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  Register r;
  for (std::size_t l = 0; l < Floats::half; ++l) r[l] = __builtin_fmaf(a[l], b[l], c[l]);
  return r;
#endif
}
#endif

/// Words of one element, converted to float.
template <typename T>
struct Single {
  static constexpr std::size_t per_word = 1;

  /// Loads sixteen words, of which the first `valid` elements exist; the rest is zero.
  static SHOAL_INLINE Words load(const T* from, std::size_t valid) {
    if (valid >= simd::width) return simd::cast<Words>(simd::load(from));
    return simd::cast<Words>(simd::load(from, valid));
  }
  static SHOAL_INLINE Register multiply_add(RegisterWords a, RegisterWords b, Register c) {
    return fma(std::bit_cast<Register>(a), std::bit_cast<Register>(b), c);
  }
  /// Stores sixteen neighbouring elements of a row.
  static SHOAL_INLINE void put(Word* row, std::size_t element, Floats v) {
    store_words(row + element, simd::cast<Words>(v));
  }
};

#if defined(__AVX512BF16__)
/// Words of two elements, the first one in the lower half. Rounds as bf16's constructor does, but subnormals become zero.
struct Pair {
  static constexpr std::size_t per_word = 2;

  static SHOAL_INLINE Words load(const bf16* from, std::size_t valid) { return load_pairs(from, valid); }
  static SHOAL_INLINE Halves load_halves(const bf16* from, std::size_t valid) { return kernels::load_halves(from, valid); }
  static SHOAL_INLINE Register multiply_add(RegisterWords a, RegisterWords b, Register c) {
    return _mm512_dpbf16_ps(c, std::bit_cast<__m512bh>(a), std::bit_cast<__m512bh>(b));
  }
  static SHOAL_INLINE void put(Word* row, std::size_t element, Floats v) {
    const __m256bh halves = _mm512_cvtneps_pbh(v);
    std::memcpy(row + element / 2, &halves, sizeof halves);
  }
  /// Words of element pairs (lower[i], upper[i]).
  static SHOAL_INLINE Words join(Floats lower, Floats upper) {
    const auto low = std::bit_cast<Halves>(_mm512_cvtneps_pbh(lower)),
               high = std::bit_cast<Halves>(_mm512_cvtneps_pbh(upper));
    return join(low, high);
  }
  static SHOAL_INLINE Words join(Halves lower, Halves upper) { return kernels::join(lower, upper); }
};
template <typename T>
using Operand = std::conditional_t<std::is_same_v<T, bf16>, Pair, Single<T>>;
#else
template <typename T>
using Operand = Single<T>;
#endif

/// 2^x for x <= 0, to 1.4 ulp. Below -126 the result is 2^-126, which is negligible beside the row's largest, 2^0. NaN stays
/// NaN.
/// x = n + f with |f| <= 1/2; 2^f by a polynomial of degree 5, fitted for the least relative error (9e-8).
SHOAL_INLINE Floats exp2_of_negative(Floats x) {
  constexpr float magic = 0x1.8p23F + 127.0F;  // adding it rounds to an integer, which is in the low bits, plus 127
  x = simd::max(simd::broadcast(-126.0F), x);
  const Floats shifted = x + magic;
  const Floats f = x - (shifted - magic);
  Floats p = simd::fma(simd::broadcast(0x1.5bba14p-10F), f, simd::broadcast(0x1.3cea88p-7F));
  p = simd::fma(p, f, simd::broadcast(0x1.c6b752p-5F));
  p = simd::fma(p, f, simd::broadcast(0x1.ebf9bcp-3F));
  p = simd::fma(p, f, simd::broadcast(0x1.62e42ap-1F));
  p = simd::fma(p, f, simd::broadcast(1.0F));
  return p * simd::cast<Floats>(simd::cast<Words>(shifted) << 23U);
}

}  // namespace shoal::kernels::attention
