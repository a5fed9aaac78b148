// SPDX-License-Identifier: Apache-2.0
// The packed operands of hand-written products are 32-bit words, which hold one float or two neighbouring bf16 (VNNI layout:
// what the instructions of AVX512_BF16 and AMX read).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/vectors/lanes.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "shoal/base/types.hpp"

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

namespace shoal::kernels {

using simd::Words;
using Word = std::uint32_t;

/// A product is written over its result, or added to it.
enum class Write { over, add };

SHOAL_INLINE Words load_words(const float* from) { return simd::load_bytes<Words>(from); }
SHOAL_INLINE void store_words(Word* to, Words w) { simd::store_bytes(to, w); }

#if defined(__AVX512BW__) && defined(__AVX512VL__)
/// load_pairs() loads sixteen words of two elements, load_halves() sixteen elements. The first `valid` elements exist; the
/// rest is zero.
SHOAL_INLINE Words load_pairs(const bf16* from, std::size_t valid) {
  const auto lanes = valid >= 32 ? ~__mmask32{0} : (__mmask32{1} << valid) - 1U;
  return std::bit_cast<Words>(_mm512_maskz_loadu_epi16(lanes, from));
}
SHOAL_INLINE simd::Halves load_halves(const bf16* from, std::size_t valid) {
  const auto lanes = static_cast<__mmask16>(valid >= 16 ? 0xffffU : (1U << valid) - 1U);
  return std::bit_cast<simd::Halves>(_mm256_maskz_loadu_epi16(lanes, from));
}
#endif

/// Words of pairs (lower[i], upper[i]).
SHOAL_INLINE Words join(simd::Halves lower, simd::Halves upper) {
  return simd::words_of(lower) | (simd::words_of(upper) << 16U);
}

/// Sixteen rows of sixteen words: what packing loads, transposes and stores at a time.
using Tile = std::array<Words, 16>;

/// Transposes a tile, by exchanging halves, then quarters, and so on.
inline void transpose_16x16(Tile& m) {
  const auto exchange = [&m]<std::size_t distance>() {
    for (std::size_t i = 0; i < 16; ++i) {
      if ((i & distance) == 0) simd::exchange_blocks<distance>(m[i], m[i + distance]);
    }
  };
  exchange.template operator()<8>();
  exchange.template operator()<4>();
  exchange.template operator()<2>();
  exchange.template operator()<1>();
}

/// The transpose of the tile whose row r is load(r).
template <class Load>
SHOAL_INLINE Tile load_transposed(const Load& load) {
  Tile tile;
  for (std::size_t r = 0; r < tile.size(); ++r) tile[r] = load(r);
  transpose_16x16(tile);
  return tile;
}
/// Stores the rows of a tile one after another. Returns the address behind them.
SHOAL_INLINE Word* store_tile(Word* to, const Tile& tile) {
  for (const Words& row : tile) {
    store_words(to, row);
    to += simd::width;
  }
  return to;
}

}  // namespace shoal::kernels
