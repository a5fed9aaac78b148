// SPDX-License-Identifier: Apache-2.0
// Products of bf16 matrices by AVX512_BF16: the micro-kernel for blocked_product.hpp. The instruction vdpbf16ps adds the
// products of two neighbours in the sum to a float. It rounds to nearest and treats subnormal numbers as zero, whatever the
// processor's control register says.
#include "kernels/cpu/product/blocked_product.hpp"
#include "kernels/cpu/product/pairs.hpp"
#include "kernels/cpu/vectors/words.hpp"
#include "shoal/base/error.hpp"

namespace shoal::kernels {

#if defined(SHOAL_PAIRS)
namespace {

using simd::Floats;

/// A step is 32 elements of the sum. Packed operands are words of two elements that are neighbours in the sum: one for each
/// row of A or each column of B, then those of the next two elements of the sum. The micro-kernel multiplies each word of A
/// with four vectors of B's words. The sums take 24 of the 32 registers. The micro-kernel continues a sum from one KC to the
/// next, so that the bits do not even depend on KC.
struct Pairs {
  using Type = bf16;
  using Packed = bf16;
  using Scope = NoScope;
  static constexpr std::size_t rows = 6, columns = 64, step = 32, parts = 1;
  // Measured on one Zen 5 core that other jobs shared, as least CPU times of many calls in turns. The micro-kernel alone
  // reached 0.99 to 1.0 of the peak with 6 x 64, also if a micro-panel of B was too large for the L1 cache (KC up to 1536);
  // 12 x 32 reached 0.8 to 0.99. KC of 512 and more, MC of 64 or 128 and NB of 8 or 32 made no difference beyond the noise.
  // Speed of whole products over that of oneDNN 2.6.3: 1.00 to 1.06 for a GPT of width 384, 0.98 to 1.08 for width 768. For
  // GPT-2's head 0.97 forward, 1.24 for the gradient of its input, 1.08 for a weight gradient that is added to another, 0.90
  // for one that is not (one of five there). Speed of steps of W1 (tests/bench), by user CPU time: 1.045, the median of
  // eight turns (0.985, 1.107).
  static constexpr std::size_t longest_uncut = 1536, largest_kc = 1024;
  static constexpr std::size_t largest_mc = 64, largest_nb = 8, a_bytes = std::size_t{512} << 10U;

  // A word is broadcast from wherever it is, so rows of A need not be packed.
  static bool reads_rows(Transpose a, std::size_t k) { return pairs::reads_rows(a, k); }
  // Without it a gradient of GPT-2's head that is added to another took 1.4 to 1.5 times as long as one that is not.
  static constexpr bool prefetches = true;

  static void pack_a(const PackSource<bf16>& s, bf16* to) {
    if (s.k_contiguous) {
      const Tile tile = words_of_lines(s, 0, rows);
      for (std::size_t w = 0; w < words; ++w)
        _mm512_mask_storeu_epi32(to + w * 2 * rows, 0x3f, std::bit_cast<__m512i>(tile[w]));
      return;
    }
    const auto lanes = static_cast<__mmask8>((1U << s.count) - 1U);
    const auto load = [&](std::size_t k) {
      // What the next step reads: other lines, which the processor does not predict.
      __builtin_prefetch(s.data + (k + step) * s.stride, 0, 2);
      return _mm_maskz_loadu_epi16(k < s.depth ? lanes : __mmask8{}, s.data + k * s.stride);
    };
    for (std::size_t w = 0; w < words; ++w, to += 2 * rows) {
      const __m128i lower = load(2 * w), upper = load(2 * w + 1);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(lower, upper));
      _mm_storeu_si64(to + 8, _mm_unpackhi_epi16(lower, upper));
    }
  }
  static void pack_b(const PackSource<bf16>& s, bf16* to) {
    if (s.k_contiguous) {
      for (std::size_t first = 0; first < columns; first += simd::width) {
        const Tile tile = words_of_lines(s, first, simd::width);
        for (std::size_t w = 0; w < words; ++w) store_words(reinterpret_cast<Word*>(to) + w * columns + first, tile[w]);
      }
      return;
    }
    for (std::size_t w = 0; w < words; ++w, to += 2 * columns) {
      for (std::size_t first = 0; first < columns; first += 2 * simd::width) {
        const auto load = [&](std::size_t k) {
          __builtin_prefetch(s.data + (k + step) * s.stride + first, 0, 2);
          return k < s.depth && first < s.count ? load_pairs(s.data + k * s.stride + first, s.count - first) : Words{};
        };
        const Words lower = load(2 * w), upper = load(2 * w + 1);
        store_words(reinterpret_cast<Word*>(to) + first, join_half<0>(lower, upper));
        store_words(reinterpret_cast<Word*>(to) + first + simd::width, join_half<1>(lower, upper));
      }
    }
  }

  template <Write write, class TileEpilogue>
  static SHOAL_INLINE void multiply(const bf16* a, const bf16* b, const Extent& extent, float* sums,
                                    TileEpilogue& epilogue) {
    epilogue.write_rest();
    const std::size_t count = (extent.depth + 1) / 2;
    const auto* const right = reinterpret_cast<const Word*>(b);
    if (extent.a_stride == 0) return block<write, rows>({a, 2, 2 * rows}, right, count, sums);
    const Left left{a, extent.a_stride, 2};
    switch (extent.rows) {
      case 1: return block<write, 1>(left, right, count, sums);
      case 2: return block<write, 2>(left, right, count, sums);
      case 3: return block<write, 3>(left, right, count, sums);
      case 4: return block<write, 4>(left, right, count, sums);
      case 5: return block<write, 5>(left, right, count, sums);
      default: return block<write, 6>(left, right, count, sums);
    }
  }

 private:
  static constexpr std::size_t words = step / 2, vectors = columns / simd::width;

  /// Word k of the sum of row r is at data + r * row + k * step.
  struct Left {
    const bf16* data;
    std::size_t row, step;
  };

  /// The first `height` rows of a tile, summed over `count` words.
  template <Write write, std::size_t height>
  static __attribute__((noinline)) void block(const Left& left_side, const Word* b, std::size_t count, float* sums) {
    const Left left = left_side;
    // Without the pragmas the compiler keeps the sums on the stack, not in registers.
    Floats sum[height][vectors];
#pragma GCC unroll 6
    for (std::size_t r = 0; r < height; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) {
        sum[r][v] = write == Write::add ? simd::load(sums + r * columns + v * simd::width) : Floats{};
      }
    }
    const bf16* a = left.data;
    for (const Word* const end = b + count * columns; b < end; a += left.step, b += columns) {
      __m512bh right[vectors];
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) right[v] = load_bf16(b + v * simd::width);
#pragma GCC unroll 6
      for (std::size_t r = 0; r < height; ++r) {
        Word word = 0;
        std::memcpy(&word, a + r * left.row, sizeof word);
        const auto same = std::bit_cast<__m512bh>(word - Words{});
#pragma GCC unroll 4
        for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], same, right[v]);
      }
    }
#pragma GCC unroll 6
    for (std::size_t r = 0; r < height; ++r) {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < vectors; ++v) simd::store(sums + r * columns + v * simd::width, sum[r][v]);
    }
  }
  static SHOAL_INLINE __m512bh load_bf16(const Word* from) {
    return std::bit_cast<__m512bh>(load_words(reinterpret_cast<const float*>(from)));
  }

  /// Words of pairs (lower[i], upper[i]), of 32 elements each: the first or the second sixteen.
  template <std::size_t half>
  static SHOAL_INLINE Words join_half(Words lower, Words upper) {
    using Elements = std::uint16_t __attribute__((vector_size(64)));
    const auto a = std::bit_cast<Elements>(lower), b = std::bit_cast<Elements>(upper);
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::bit_cast<Words>(__builtin_shufflevector(a, b, (i % 2 * 32 + half * 16 + i / 2)...));
    }
    (std::make_index_sequence<32>());
  }

  /// The words of a step for `most` rows of A or columns of B from `first` on, which are lines in memory: row w of the
  /// result holds word w of the sum.
  static SHOAL_INLINE Tile words_of_lines(const PackSource<bf16>& p, std::size_t first, std::size_t most) {
    const std::size_t count = p.count > first ? std::min(p.count - first, most) : 0;
    Tile tile;
    const bf16* line = p.data + first * p.stride;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < tile.size(); ++i, line += p.stride) {
      tile[i] = Words{};
      if (i >= count) continue;
      __builtin_prefetch(line + 4 * step);
      tile[i] = load_pairs(line, p.depth);
    }
    transpose_16x16(tile);
    return tile;
  }
};

}  // namespace

std::unique_ptr<Product> make_blocked_pairs(const ProductKey& key) {
  if (key.result == DType::f32) return std::make_unique<BlockedProduct<Pairs, float>>(key);
  return std::make_unique<BlockedProduct<Pairs, bf16>>(key);
}
#else
std::unique_ptr<Product> make_blocked_pairs(const ProductKey& /*key*/) {
  fail("this build has no products of pairs of bf16");
}
#endif

}  // namespace shoal::kernels
